-- Values in the order in which they were appended.
local List = class "List"

List.migrations = {
  [[CREATE TABLE items (place INTEGER PRIMARY KEY, value INTEGER NOT NULL)]],
}

function List:append(value)
  local last = state.sql.one("SELECT max(place) AS place FROM items")
  local place = (last.place or 0) + 1
  state.sql.exec("INSERT INTO items (place, value) VALUES (?, ?)", place, value)
  emit("appended", { value = value, place = place })
  return place
end

function List.read:all()
  local values = array {}
  for row in state.sql.each("SELECT value FROM items ORDER BY place") do values[#values + 1] = row.value end
  return values
end

return List
