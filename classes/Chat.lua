---A chat room: members join, speak and leave; the last messages are kept.
---
---    moonport call Chat/lobby join ada
---    moonport call Chat/lobby say ada "hello, moon"
---    moonport call Chat/lobby history
local Chat = class "Chat"

local KEPT = 1000
local TEXT_BYTES_MAX = 2000

Chat.migrations = {
  [[CREATE TABLE members (name TEXT PRIMARY KEY, joined_at REAL NOT NULL)]],
  [[CREATE TABLE messages (
      id   INTEGER PRIMARY KEY,
      who  TEXT NOT NULL,
      text TEXT NOT NULL,
      at   REAL NOT NULL
    )]],
}

Chat.directory = {
  columns = { members = "integer", messages = "integer", last_at = "real" },
  index = { "last_at" },
  row = function(self)
    local members = state.sql.one("SELECT count(*) AS n FROM members").n
    local said = state.sql.one("SELECT max(id) AS n, max(at) AS at FROM messages")
    return { members = members, messages = said.n or 0, last_at = said.at }
  end,
}

local function must_be_member(who)
  if not state.sql.one("SELECT 1 AS yes FROM members WHERE name = ?", who) then
    error { code = "not_a_member", message = tostring(who) .. " has not joined" }
  end
end

---Joins the room and returns who is there; joining twice is no error.
---@param who string
---@return { members: string[] }
function Chat:join(who)
  if type(who) ~= "string" or who == "" or #who > 60 then
    error { code = "bad_name", message = "join takes a name of 1 to 60 bytes" }
  end
  local added = state.sql.exec("INSERT OR IGNORE INTO members (name, joined_at) VALUES (?, ?)", who, now())
  if added > 0 then emit("joined", { who = who }) end
  return { members = self:members() }
end

---@param who string
---@return { members: string[] }
function Chat:leave(who)
  must_be_member(who)
  state.sql.exec("DELETE FROM members WHERE name = ?", who)
  emit("left", { who = who })
  return { members = self:members() }
end

---Says something and returns the message's number.
---@param who string
---@param text string
---@return { id: integer }
function Chat:say(who, text)
  must_be_member(who)
  if type(text) ~= "string" or text == "" or #text > TEXT_BYTES_MAX then
    error { code = "bad_text", message = "say takes a text of 1 to " .. TEXT_BYTES_MAX .. " bytes" }
  end
  local _, id = state.sql.exec("INSERT INTO messages (who, text, at) VALUES (?, ?, ?)", who, text, now())
  state.sql.exec("DELETE FROM messages WHERE id <= ?", id - KEPT)
  emit("said", { id = id, who = who, text = text })
  return { id = id }
end

---Messages in the order they were said.
---@param limit? integer 50 when left out
---@param before? integer a message's number: only what was said before it
function Chat.read:history(limit, before)
  return state.sql.all(
    [[SELECT id, who, text, at FROM
        (SELECT * FROM messages WHERE id < :before ORDER BY id DESC LIMIT :limit)
      ORDER BY id]],
    { before = before or 2 ^ 53, limit = limit or 50 }
  )
end

---@return string[]
function Chat.read:members()
  local names = array {}
  for row in state.sql.each("SELECT name FROM members ORDER BY name") do
    names[#names + 1] = row.name
  end
  return names
end

return Chat
