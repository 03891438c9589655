local Register = class "Register"

function Register:write(value)
  state.store.set("value", value)
end

function Register.read:value()
  return state.store.get("value") or 0
end

return Register
