/** Classes whose objects tell what their timers and messages did. */
export const ALARM = `
local Alarm = class "Alarm"

local function note(text)
  local rang = state.store.get("rang") or {}
  rang[#rang + 1] = text
  state.store.set("rang", rang)
  state.store.set("last", now())
end

function Alarm:set(delay, name) return schedule.after(delay, { name = name }):_ring(name) end
function Alarm:at(seconds)
  state.store.set("due", seconds)
  schedule.at(seconds):_ring("at")
end
function Alarm:every(interval, missed) schedule.every(interval, { name = "every", missed = missed }):_ring("every") end
function Alarm:daily(hour)
  schedule.cron("0 " .. math.floor(hour) .. " * * *", { name = "daily", tz = "Europe/Berlin" }):_ring("daily")
end
function Alarm:fail_for(seconds, delay)
  state.store.set("fails_until", now() + seconds)
  schedule.after(delay, { name = "fails" }):_fail()
end
function Alarm:off(name) return schedule.cancel(name) end
function Alarm:move(name, when) return schedule.move(name, when) end
function Alarm:chain(links)
  schedule.after(1, { name = "chain" }):_link(links)
end
function Alarm:ask_all(others, delay)
  for _, other in ipairs(others) do schedule.after(delay):_ask(other) end
end

function Alarm:_ring(what)
  local due = state.store.get("due")
  if due and now() < due then state.store.set("early", now()) end
  note(what .. " of " .. self.key .. " by " .. caller.kind)
end
function Alarm:_link(links)
  note("link " .. math.floor(links))
  schedule.after(60, { name = "other" }):_ring("other")
  schedule.cancel("other")
  if links > 1 then schedule.after(1, { name = "chain" }):_link(links - 1) end
end
function Alarm:_ask(other)
  local rang = Alarm(other):rang()
  note(other .. " has " .. #rang)
end
function Alarm:_fail()
  note("undone, or not")
  if now() < state.store.get("fails_until") then error "not yet" end
end
function Alarm.read:rang() return state.store.get("rang") end
function Alarm.read:last() return state.store.get("last") end
function Alarm.read:early() return state.store.get("early") end
function Alarm.read:timers() return schedule.list() end
return Alarm`;

export const POST = `
local Post = class "Post"

local function note(text)
  local got = state.store.get("got") or {}
  got[#got + 1] = text
  state.store.set("got", got)
end

function Post:mail(to, texts) for _, text in ipairs(texts) do send(Post(to)):take(text) end end
function Post:mail_later(to, text, delay) send(Post(to), { delay = delay }):take(text) end
function Post:farewell(to, texts)
  for _, text in ipairs(texts) do send(Post(to)):take(text) end
  send(Post(to), { delay = "1h" }):take("an hour later")
  schedule.after(60):count()
  destroy()
  return "gone"
end
function Post:mail_and_fail(to)
  send(Post(to)):take("never")
  error "and yet"
end
function Post:refuse(refuses) state.store.set("refuses", refuses) end
function Post:take(text)
  if state.store.get("refuses") then error { code = "refused", message = "not now" } end
  if caller.kind ~= "message" then error "no message" end
  note(text .. " from " .. (caller.id or "nobody"))
end
function Post:take_not() error "never" end
function Post:spin(n) for i = 1, n do local x = i end end
function Post:end_after(other)
  Post(other):spin(20000)
  destroy()
end
function Post:count() state.store.set("count", (state.store.get("count") or 0) + 1) end
function Post:told(what)
  note(what.id .. " " .. what.outcome .. (what.error and " " .. what.error.code or ""))
end
function Post.read:got() return state.store.get("got") end
function Post.read:counted() return state.store.get("count") or 0 end
return Post`;

/** Whose calls oblige to everything there is. */
export const OWER = `
local Ower = class "Ower"
local function add(name, what)
  local list = state.store.get(name) or {}
  list[#list + 1] = what
  state.store.set(name, list)
end
function Ower:work(number, to)
  add("did", number)
  send(Ower(to)):take("now " .. number)
  send(Ower(to), { delay = 2 }):take("later " .. number, now() + 2)
  schedule.after(1):_ring(number, now() + 1)
  schedule.every(3, { name = "every" }):_tick()
end
function Ower:take(what, due)
  if due and now() < due then what = what .. " early" end
  add("got", what)
end
function Ower:_ring(number, due) add("rang", now() < due and "early" or number) end
function Ower:_tick() add("ticks", now()) end
function Ower.read:all()
  local all = {}
  for _, name in ipairs { "did", "got", "rang", "ticks" } do all[name] = state.store.get(name) or {} end
  return all
end
return Ower`;
