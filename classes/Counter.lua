-- A number that many callers change: the smallest useful class.
--
--   moonport call Counter/visits add 1        {"value":1}
--   moonport call Counter/visits value        1

local Counter = class "Counter"

-- Adds `amount` (1 when left out) and returns the new value.
function Counter:add(amount)
  amount = amount or 1
  if type(amount) ~= "number" then
    error { code = "not_a_number", message = "add takes a number" }
  end
  local value = (state.store.get("value") or 0) + amount
  state.store.set("value", value)
  emit("changed", { value = value, by = amount })
  return { value = value }
end

-- Starts again at zero and returns what the value was.
function Counter:reset()
  local before = state.store.get("value") or 0
  state.store.set("value", 0)
  emit("changed", { value = 0, by = -before })
  return { before = before }
end

-- A reading method: it changes nothing, so it need not wait its turn behind calls that do.
function Counter.read:value()
  return state.store.get("value") or 0
end

return Counter
