/** A class that emits what it is told to. */
export const LOG = `
local Log = class "Log"
function Log:say(text) state.store.set("last", text) emit("said", text) return text end
function Log:whisper(text) state.store.set("last", text) emit("whispered", text) end
function Log:many(count, name)
  state.store.set("last", count)
  for i = 1, count do emit(name or "said", i) end
end
function Log:mark(count, name, token)
  state.store.set("last", token)
  for i = 1, count do emit(name, token .. "." .. i) end
end
function Log:set(text) state.store.set("last", text) end
function Log:touch() state.store.set("touched", now()) end
function Log:finish() emit("finished", 1) destroy() end
function Log:fail(text) emit("said", text) error("no") end
function Log.read:last() return state.store.get("last") end
function Log.read:plus(n) return (state.store.get("last") or 0) + n end
function Log.read:who() return caller.id end
function Log.read:picky()
  local last = state.store.get("last")
  if last == "bad" then error { code = "oh_no", message = "broken" } end
  return last
end
return Log
`;

export const classes = { Log: LOG };
