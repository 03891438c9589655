-- The call that the benchmark measures: it reads, inserts, sets and emits.

local Work = class "Work"

Work.migrations = {
  [[CREATE TABLE entries (
      id     INTEGER PRIMARY KEY,
      who    TEXT NOT NULL,
      amount INTEGER NOT NULL
    )]],
}

function Work:write(who, amount)
  local before = state.sql.one("SELECT id, amount FROM entries ORDER BY id DESC LIMIT 1")
  state.sql.exec("INSERT INTO entries (who, amount) VALUES (?, ?)", who, amount)
  state.store.set("last", { who = who, amount = amount })
  emit("written", { who = who, amount = amount })
  return { before = before and before.amount }
end

local function look()
  local newest = state.sql.one("SELECT id, who, amount FROM entries ORDER BY id DESC LIMIT 1")
  local last = state.store.get("last")
  return { id = newest.id, who = newest.who, amount = last.amount }
end

function Work.read:look()
  return look()
end

-- The same, and run each time: what tells the time is not remembered.
function Work.read:look_anew()
  local seen = look()
  seen.at = now()
  return seen
end

function Work:nothing()
end

-- Three calls of the host, with small strings and tables both ways.
function Work:consult()
  local last = state.store.get("last")
  local again = state.store.get("last")
  local missing = state.store.get("nobody")
  return { who = last.who, same = again.amount == last.amount, missing = missing }
end

-- Keeps the engine busy: about a microsecond for eight steps.
function Work:spin(steps)
  local sum = 0
  for i = 1, steps do sum = sum + i % 7 end
  return sum
end

return Work
