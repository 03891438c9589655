---Signs a book: the program's own Moderator looks at the line, then the book takes it. One answer, when both are done and
---the line is durable.
return function(request)
  local line = request.body or {}
  Moderator("guestbook"):check(line.text)
  return { status = 201, body = Guestbook(request.query.book):sign(line.name, line.text) }
end
