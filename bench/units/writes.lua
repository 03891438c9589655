-- Writes once on each of as many objects as the request says, all of them its own.
return function(request)
  for i = 1, request.body.objects do Work(request.body.key .. "-" .. i):write("ada", i) end
end
