-- Writes down, in order, what it sets, what rings, what it sends and what reaches it, each in the transaction in which that happens.
local Doer = class "Doer"

Doer.migrations = {
  [[CREATE TABLE ledger (place INTEGER PRIMARY KEY, what TEXT NOT NULL, token TEXT NOT NULL, at REAL NOT NULL, due REAL,
      done INTEGER, other TEXT)]],
}

Doer.directory = {
  columns = { entries = "integer", token = "text" },
  index = { "entries" },
  row = function(self)
    return state.sql.one("SELECT place AS entries, token FROM ledger ORDER BY place DESC LIMIT 1")
  end,
}

local function note(what, token, more)
  more = more or {}
  local done = null
  if more.done ~= nil then done = more.done and 1 or 0 end
  state.sql.exec(
    "INSERT INTO ledger (what, token, at, due, done, other) VALUES (?, ?, ?, ?, ?, ?)",
    what, token, now(), more.due or null, done, more.other or null
  )
end

-- Timers

function Doer:set(token, delay, links)
  local due = now() + delay
  note("set", token, { due = due })
  schedule.at(due, { name = token }):_ring(token, delay, links)
end

function Doer:after(token, delay, links)
  note("set", token, { due = now() + delay })
  schedule.after(delay, { name = token }):_ring(token, delay, links)
end

function Doer:every(token, period, missed)
  note("every", token, { due = now() + period, other = missed })
  schedule.every(period, { name = token, missed = missed }):_tick(token)
end

function Doer:cron(token, expression, missed)
  note("cron", token, { other = missed })
  schedule.cron(expression, { name = token, missed = missed }):_tick(token)
end

function Doer:cancel(token)
  note("cancel", token, { done = schedule.cancel(token) })
end

function Doer:move(token, delay)
  note("move", token, { due = now() + delay, done = schedule.move(token, delay) })
end

function Doer:_ring(token, delay, links)
  note("rang", token)
  if links > 0 then self:after(token .. "+", delay, links - 1) end
end

function Doer:_tick(token)
  note("ticked", token)
end

-- Messages: `onward` names whom it is handed on to, one after the other

function Doer:post(token, delay, onward)
  local to = table.remove(onward, 1)
  note("sent", token, { due = now() + delay, other = to })
  send(Doer(to), { delay = delay }):take(token, delay, onward)
end

function Doer:take(token, delay, onward)
  note("took", token, { other = caller.id })
  if #onward > 0 then self:post(token .. ">", delay, onward) end
end

function Doer:told(run)
  note("told", run.id, { other = run.outcome })
end

function Doer:leave()
  destroy()
end

function Doer.read:ledger()
  local entries = array {}
  for row in state.sql.each("SELECT what, token, at, due, done, other FROM ledger ORDER BY place") do
    entries[#entries + 1] = row
  end
  return entries
end

return Doer
