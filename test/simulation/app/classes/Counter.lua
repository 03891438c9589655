local Counter = class "Counter"

function Counter:add(amount)
  local value = (state.store.get("value") or 0) + amount
  state.store.set("value", value)
  return value
end

function Counter.read:value()
  return state.store.get("value") or 0
end

return Counter
