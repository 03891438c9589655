---A guestbook: whoever comes by leaves a line, and whoever watches sees it.
local Guestbook = class "Guestbook"

Guestbook.migrations = {
  [[CREATE TABLE entries (
      id   INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      text TEXT NOT NULL,
      at   REAL NOT NULL
    )]],
}

local TEXT_BYTES_MAX = 500

---@param name string
---@param text string
---@return { id: integer, name: string, text: string, at: number }
function Guestbook:sign(name, text)
  if type(name) ~= "string" or name == "" then
    error { code = "no_name", message = "say who you are" }
  end
  if type(text) ~= "string" or text == "" or #text > TEXT_BYTES_MAX then
    error { code = "bad_text", message = "a line has 1 to " .. TEXT_BYTES_MAX .. " bytes" }
  end
  local entry = { name = name, text = text, at = now() }
  local _, id = state.sql.exec("INSERT INTO entries (name, text, at) VALUES (:name, :text, :at)", entry)
  entry.id = id
  emit("signed", entry)
  return entry
end

---The last lines, the newest first.
---@param limit? integer 20 when left out
function Guestbook.read:entries(limit)
  return state.sql.all("SELECT id, name, text, at FROM entries ORDER BY id DESC LIMIT ?", limit or 20)
end

return Guestbook
