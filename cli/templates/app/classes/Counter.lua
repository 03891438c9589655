---A number that counts: the smallest class there is. Every key is a counter of its own, `Counter/visits` as much as
---`Counter/downloads`.
local Counter = class "Counter"

---Adds to the counter and returns its new value. The reply leaves when the write is durable.
---@param by? integer how much; 1 when left out
---@return integer
function Counter:increment(by)
  by = by or 1
  if type(by) ~= "number" then
    error { code = "not_a_number", message = "increment takes a number" }
  end
  local value = (state.store.get("value") or 0) + by
  state.store.set("value", value)
  emit("changed", { value = value })
  return value
end

---Sets the counter back to zero.
function Counter:reset()
  state.store.set("value", 0)
  emit("changed", { value = 0 })
end

---A reading method: it changes nothing, and may be asked with GET.
---@return integer
function Counter.read:value()
  return state.store.get("value") or 0
end

return Counter
