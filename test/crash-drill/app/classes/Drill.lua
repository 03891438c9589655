-- The class of the crash drill. Whatever happens to an object of it is one line of its list, under the id of the call that did it or
-- asked for it; each line tells one event with the line's number. So what is lost, doubled or half done shows in the list.

local Drill = class "Drill"

Drill.migrations = {
  [[CREATE TABLE lines (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, other TEXT, body TEXT NOT NULL)]],
}

Drill.directory = {
  columns = { lines = "integer", last = "text" },
  row = function(self)
    return { lines = state.sql.one("SELECT count(*) AS n FROM lines").n, last = state.store.get("last") }
  end,
}

local function append(kind, id, other, body)
  local _, n = state.sql.exec("INSERT INTO lines (kind, id, other, body) VALUES (?, ?, ?, ?)", kind, id, other, body or "")
  state.store.set("last", kind .. " " .. id)
  emit("line", { n = n, kind = kind, id = id })
  return { n = n }
end

function Drill:add(id, units)
  return append("add", id, nil, string.rep(id .. ";", units))
end

-- A timer of the object's own; it fires once.
function Drill:arm(id, delay_ms)
  schedule.after(delay_ms / 1000):_fire(id)
  return append("arm", id)
end

function Drill:_fire(id)
  append("fired", id)
end

-- A message at once, and one by the delay shard of its target.
function Drill:tell(id, key)
  send(Drill(key)):got(id, self.key)
  return append("tell", id, key)
end

function Drill:tell_later(id, key, delay_ms)
  send(Drill(key), { delay = delay_ms / 1000 }):got(id, self.key)
  return append("tell", id, key)
end

function Drill:got(id, from)
  return append("got", id, from)
end

function Drill.read:lines()
  return state.sql.all("SELECT n, kind, id, other FROM lines ORDER BY n")
end

return Drill
