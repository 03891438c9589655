-- As Work's calls, and each write's directory row is published: what that adds.

local Listed = class "Listed"

Listed.migrations = {
  [[CREATE TABLE entries (
      id     INTEGER PRIMARY KEY,
      who    TEXT NOT NULL,
      amount INTEGER NOT NULL
    )]],
}

Listed.directory = {
  columns = { who = "text", amount = "integer" },
  index = { "amount" },
  row = function(self)
    local last = state.store.get("last") or {}
    return { who = last.who, amount = last.amount }
  end,
}

function Listed:write(who, amount)
  local before = state.sql.one("SELECT id, amount FROM entries ORDER BY id DESC LIMIT 1")
  state.sql.exec("INSERT INTO entries (who, amount) VALUES (?, ?)", who, amount)
  state.store.set("last", { who = who, amount = amount })
  emit("written", { who = who, amount = amount })
  return { before = before and before.amount }
end

function Listed.read:look()
  local newest = state.sql.one("SELECT id, who, amount FROM entries ORDER BY id DESC LIMIT 1")
  local last = state.store.get("last")
  return { id = newest.id, who = newest.who, amount = last.amount }
end

return Listed
