---A number that many callers change: the smallest class there is. Every key is a counter of its own.
---
---    moonport call Counter/visits increment        1
---    moonport call Counter/visits value            1
local Counter = class "Counter"

---Adds to the counter and returns its new value. The reply leaves when the write is durable.
---@param by? number how much; 1 when left out
---@return number
function Counter:increment(by)
  by = by or 1
  if type(by) ~= "number" then
    error { code = "not_a_number", message = "increment takes a number" }
  end
  local value = (state.store.get("value") or 0) + by
  state.store.set("value", value)
  emit("changed", { value = value, by = by })
  return value
end

---Starts again at zero and returns what the value was.
---@return number
function Counter:reset()
  local before = state.store.get("value") or 0
  state.store.set("value", 0)
  emit("changed", { value = 0, by = -before })
  return before
end

---A reading method: it changes nothing, so it need not wait its turn behind calls that do.
---@return number
function Counter.read:value()
  return state.store.get("value") or 0
end

return Counter
