---The sale in one request. `GET` tells how every lot stands; `POST` offers lots, and answers the same.
---
---    curl http://127.0.0.1:7070/v1/default/units/lots
---    curl -X POST http://127.0.0.1:7070/v1/default/units/lots -H 'Content-Type: application/json' \
---         -d '[{"key":"sextant","title":"Sextant","start":30,"minutes":45}]'
---
---Opening ten lots writes eleven objects, and waits once until all of it is durable: when the response leaves.
local house = House("main")

local function overview()
  local lots = array {}
  for _, key in ipairs(house:lots()) do
    local lot = Lot(key):standing()
    if lot then -- it may be destroyed, and the catalogue does not know
      lot.key = key
      lots[#lots + 1] = lot
    end
  end
  return lots
end

---A lot that is running is left alone, so that the same catalogue may be sent twice.
local function open(offer)
  local ok, problem = pcall(function() Lot(offer.key):open(offer) end)
  if not ok and problem.code ~= "already_open" then error(problem) end
  house:list(offer.key)
end

return function(request)
  if request.method == "GET" then return overview() end
  if request.method ~= "POST" then return { status = 405, headers = { allow = "GET, POST" } } end
  if type(request.body) ~= "table" then
    error { code = "bad_offer", message = "send a list of lots, as JSON" }
  end
  for _, offer in ipairs(request.body) do open(offer) end
  return { status = 201, body = overview() }
end
