local Register = class "Register"

local HALF_BYTES = 600 * 1024

function Register:write(value)
  state.store.set("value", value)
end

-- More than one segment may carry.
function Register:fill(value)
  local half = string.rep(tostring(value % 10), HALF_BYTES)
  state.store.set("left", half)
  state.store.set("right", half)
  state.store.set("value", value)
end

function Register.read:value()
  return state.store.get("value") or 0
end

return Register
