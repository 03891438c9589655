-- The class of the stored data (docs/testing.md). What it has once stored has to be read for ever: its tables, methods and columns
-- stay as they are.

local Kept = class "Kept"

Kept.migrations = {
  [[CREATE TABLE lines (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL)]],
  [[CREATE INDEX lines_kind ON lines (kind)]],
}

Kept.directory = {
  columns = { lines = "integer", last = "text" },
  index = { "lines" },
  row = function(self)
    return { lines = state.sql.one("SELECT count(*) AS n FROM lines").n, last = state.store.get("last") }
  end,
}

local function append(kind, id, body)
  local _, n = state.sql.exec("INSERT INTO lines (kind, id, body) VALUES (?, ?, ?)", kind, id, body or "")
  state.store.set("last", id)
  state.store.set("value", { list = { 1, 2.5, "drei" }, flag = true })
  emit("line", { n = n, id = id })
  return { n = n }
end

function Kept:add(id, body)
  return append("add", id, body)
end

function Kept:arm(id, delay_ms)
  schedule.after(delay_ms / 1000, { name = id }):_fire(id)
  schedule.cron("0 7 * * *", { name = "morning", tz = "Europe/Berlin", missed = "skip" }):_fire("morning")
  return append("arm", id)
end

function Kept:_fire(id)
  append("fired", id)
end

function Kept:tell(id, key, delay_ms)
  send(Kept(key), { delay = delay_ms / 1000 }):got(id)
  return append("tell", id)
end

function Kept:got(id, body)
  return append("got", id, body)
end

function Kept:leave()
  self:destroy()
end

function Kept.read:lines()
  return state.sql.all("SELECT n, kind, id, length(body) AS size FROM lines ORDER BY n")
end

function Kept.read:value()
  return state.store.get("value")
end

return Kept
