---The house: which lots it has offered, in the order of the catalogue. A lot is an object of its own, so that bids on one never
---wait for bids on another; the house knows their keys only.
local House = class "House"

local LOTS_MAX = 200

---Puts a lot into the catalogue; one that is there already stays where it is.
---@param key string
function House:list(key)
  local lots = self:lots()
  for _, listed in ipairs(lots) do
    if listed == key then return end
  end
  if #lots >= LOTS_MAX then
    error { code = "house_full", message = "the catalogue has room for " .. LOTS_MAX .. " lots" }
  end
  lots[#lots + 1] = key
  state.store.set("lots", lots)
end

---@return string[] keys
function House.read:lots()
  return state.store.get("lots") or array {}
end

return House
