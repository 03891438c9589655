---@meta moonport

-- What a Moonport class sees, for editors that speak LuaLS (lua-language-server). This file is never run.
--
-- Lua is 5.3 with these differences: whole numbers beyond 32 bits are floats (and print without ".0"); there is no io,
-- debug, package, load or collectgarbage; os has time, date, clock and difftime, in UTC and bound to now().

---A value that may travel: what JSON has, plus blob. Tables are arrays (keys 1..n) or maps (text keys).
---@alias moonport.Value nil|boolean|number|string|moonport.Null|moonport.Blob|table

---Seconds, or text: "250ms", "10s", "5m", "2h", "1d".
---@alias moonport.Duration number|string

-- Classes and objects ---------------------------------------------------------------------------------------------

---A class, and in its methods `self`: the object that is called. Fields of self cannot be set; keep state in `state`.
---@class moonport.Class
---@field key string the object's key, "lot-42"
---@field class string the class's name, "Auction"
---@field app string the app's name, "default"
---@field id string app/Class/key
---@field read moonport.ReadingMethods methods that write nothing: `function Auction.read:top() ... end`
---@field migrations string[] SQL run once each, in order, in the first transaction after the class changed
---@field directory moonport.Directory the row that lists the object in its class's directory
---@field on_create? fun(self: moonport.Class) runs before the object's first call
---@field on_wake? fun(self: moonport.Class) runs when the object becomes resident again
---@field [string] any
---@overload fun(key: string): moonport.Reference

---@class moonport.ReadingMethods: moonport.Class

---@class moonport.Directory
---@field columns table<string, "text"|"integer"|"real"|"boolean">
---@field index? string[] columns to query and order by
---@field row fun(self: moonport.Class): table derived after every writing call; must be quick and write nothing

---Another object. Call its methods and wait for the answer, `Auction("lot-42"):bid("ada", 25)` (in a method, before its
---first write), or give it to `send`.
---@class moonport.Reference
---@field class string
---@field key string
---@field [string] fun(self: moonport.Reference, ...: moonport.Value): any

---Begins a class; the file returns it. `name` is the file's name.
---@param name string
---@return moonport.Class
function class(name) end

-- The object's own state --------------------------------------------------------------------------------------------

---@class moonport.State
state = {}

---The object's own SQLite database. Parameters are values in order, or one table of names.
---@class moonport.Sql
state.sql = {}

---Runs one statement.
---@param sql string
---@param ... moonport.Value
---@return integer changes rows that changed
---@return integer|string id of the last row an INSERT made: text beyond 2^53, 0 of a table WITHOUT ROWID
function state.sql.exec(sql, ...) end

---The first row, or nil.
---@param sql string
---@param ... moonport.Value
---@return table? row column names to values; NULL is nil
function state.sql.one(sql, ...) end

---Every row.
---@param sql string
---@param ... moonport.Value
---@return table[] rows
function state.sql.all(sql, ...) end

---A row at a time: `for row in state.sql.each("SELECT ...") do ... end`
---@param sql string
---@param ... moonport.Value
---@return fun(): table?
function state.sql.each(sql, ...) end

---Values by key, kept beside the tables.
---@class moonport.Store
state.store = {}

---@param key string
---@return any value nil when there is none
function state.store.get(key) end

---Setting nil deletes.
---@param key string
---@param value moonport.Value
function state.store.set(key, value) end

---@param key string
---@return boolean deleted whether there was one
function state.store.delete(key) end

---All keys that begin with `prefix`; `pairs` walks them in order.
---@param prefix? string
---@return table<string, any>
function state.store.list(prefix) end

---Sets a value as a log row: cheap for values that change many times a second.
---@param key string
---@param value moonport.Value
function state.store.set_volatile(key, value) end

---Appends to a text, as a log row: for text that streams in.
---@param key string
---@param text string
function state.store.append_volatile(key, text) end

---Ends this object: its timers, subscriptions and directory row go with this call.
function destroy() end

-- What leaves the object ----------------------------------------------------------------------------------------------

---Tells subscribers, once this call is durable.
---@param event string
---@param data? moonport.Value
function emit(event, data) end

---@class moonport.SendOptions
---@field delay? moonport.Duration
---@field expires? number found later than this time (seconds, as `now()`), it is not delivered
---@field id? string sending twice with one id delivers once
---@field outcome? string method of the sender that is told what became of it
---@field outcome_event? string event that the sender emits when it is known what became of it

---A call not made yet: name the method and its arguments with a colon.
---@class moonport.PendingCall
---@field [string] fun(self: moonport.PendingCall, ...: moonport.Value): integer

---Has another object called once this call is committed, exactly once: `send(Auction("lot-42")):bid("ada", 25)`
---@param target moonport.Reference
---@param options? moonport.SendOptions
---@return moonport.PendingCall
function send(target, options) end

---@alias moonport.Missed "all"|"latest"|"skip"

---@class moonport.TimerOptions
---@field name? string a second timer of the same name replaces the first
---@field missed? moonport.Missed what becomes of runs that nobody could start in time; "latest" without

---@class moonport.CronOptions: moonport.TimerOptions
---@field tz? string a time zone, "Europe/Berlin"; UTC without

---@class moonport.Timer
---@field id integer
---@field name? string
---@field method string
---@field due number seconds since 1970

---Durable timers of this object: `schedule.after("10m", { name = "close" }):_close()`
---@class moonport.Schedule
schedule = {}

---@param delay moonport.Duration
---@param options? moonport.TimerOptions
---@return moonport.PendingCall
function schedule.after(delay, options) end

---@param seconds number since 1970, as now() gives them
---@param options? moonport.TimerOptions
---@return moonport.PendingCall
function schedule.at(seconds, options) end

---@param interval moonport.Duration
---@param options? moonport.TimerOptions
---@return moonport.PendingCall
function schedule.every(interval, options) end

---@param expression string "0 9 * * *": minute, hour, day of month, month, day of week
---@param options? moonport.CronOptions
---@return moonport.PendingCall
function schedule.cron(expression, options) end

---@param timer integer|string a timer's id or name
---@return boolean cancelled
function schedule.cancel(timer) end

---@param timer integer|string a timer's id or name
---@param when moonport.Duration|{ after?: moonport.Duration, at?: number, every?: moonport.Duration, cron?: string, tz?: string, missed?: moonport.Missed }
---@return boolean moved
function schedule.move(timer, when) end

---@return moonport.Timer[]
function schedule.list() end

-- Units: units/<name>.lua returns `function(request) ... return response end` --------------------------------------------

---@class moonport.Request
---@field method string "GET", "POST", ...
---@field path string what follows the unit's name in the address; "/" when nothing does
---@field query table<string, string|string[]> a list where a name is given more than once
---@field headers table<string, string> names in lower case; without Authorization
---@field body any JSON as a value, text as a string, anything else as a blob; nil without a body
---@field caller moonport.Caller

---What a unit may return: this, or any value, which is sent as JSON with status 200.
---@class moonport.Response
---@field status? integer 200 to 599; 200 without
---@field headers? table<string, string>
---@field body? any JSON, unless a content-type header says otherwise

---In a unit: waits until everything that its calls have done so far is durable.
function settle() end

---@class moonport.FetchOptions
---@field method? string "GET", or "POST" when there is a body
---@field headers? table<string, string>
---@field body? string|moonport.Blob
---@field json? any sent as JSON, in place of a body
---@field timeout? moonport.Duration

---@class moonport.FetchResponse
---@field status integer
---@field headers table<string, string> names in lower case
---@field body string|moonport.Blob text where it is UTF-8 text, else bytes

---In a unit: asks a host on the allow-list; settles first.
---@param url string
---@param options? moonport.FetchOptions
---@return moonport.FetchResponse
function fetch(url, options) end

-- The call ------------------------------------------------------------------------------------------------------------

---@class moonport.Caller
---@field kind "client"|"unit"|"object"|"timer"|"message"|"system"
---@field id? string
---@field claims? table

---Who is calling.
---@type moonport.Caller
caller = {}

---Seconds since 1970, with fraction, at the call's start.
---@return number
function now() end

---random() in [0, 1), random(high) in 1..high, random(low, high); drawn from the call's own seed.
---@param low? integer
---@param high? integer
---@return number
function random(low, high) end

---@return string
function uuid() end

-- Values --------------------------------------------------------------------------------------------------------------

---@class moonport.Null

---null inside arrays and maps, where nil would be nothing.
---@type moonport.Null
null = nil

---Marks a table as an array, also when it is empty: `return array{}`
---@generic T
---@param list? T[]
---@return T[]
function array(list) end

---Bytes. `#b` is their number, `tostring(b)` and `b:bytes()` give them as a Lua string.
---@class moonport.Blob
---@operator len: integer
---@operator concat(string|moonport.Blob): string
local Blob = {}

---@return string
function Blob:bytes() end

---Bytes that need not be UTF-8 text, to store or return.
---@param bytes string|moonport.Blob
---@return moonport.Blob
function blob(bytes) end

---@class moonport.Json
json = {}

---@param value moonport.Value
---@return string
function json.encode(value) end

---@param text string
---@return any
function json.decode(text) end

---@class moonport.Hash
hash = {}

---@param text string|moonport.Blob
---@return string hex
function hash.sha256(text) end

-- The directory -------------------------------------------------------------------------------------------------------

---A query of a class's directory. In methods before their first write, and in units.
---@class moonport.Query
---@field where? string `top > 100 and status = 'open'`
---@field params? any[]|table<string, any> for `?` in order, or for `:name`
---@field order? string `-top, status`
---@field limit? integer
---@field after? string where the page before ended
---@field count? boolean how many there are in all, too

---@class moonport.Page
---@field rows { key: string, row: table, staleSinceMs?: integer }[]
---@field after? string for the next page; nil when there is none
---@field count? integer

---`find "Auction" { where = "top > 100", order = "-top", limit = 20 }`
---@param class string
---@return fun(query?: moonport.Query): moonport.Page
function find(class) end

-- The log -------------------------------------------------------------------------------------------------------------

---For the operator. Arguments are joined by spaces, tables show as JSON.
---@class moonport.Log
log = {}

---@param ... any
function log.debug(...) end

---@param ... any
function log.info(...) end

---@param ... any
function log.warn(...) end

---@param ... any
function log.error(...) end

-- Tests, in tests/*.lua ---------------------------------------------------------------------------------------------------

---A test, run by `moonport test` on a node of its own. Call objects as anywhere: `Auction("lot-42"):bid("ada", 25)`.
---@param name string
---@param body fun()
function test(name, body) end

---@class moonport.Expectation
---@field equals fun(self: moonport.Expectation, value: any) the same value; tables by what is in them
---@field differs fun(self: moonport.Expectation, value: any)
---@field near fun(self: moonport.Expectation, number: number, within?: number) within 1e-9 when left out
---@field truthy fun(self: moonport.Expectation)
---@field falsy fun(self: moonport.Expectation)
---@field matches fun(self: moonport.Expectation, pattern: string)
---@field fails fun(self: moonport.Expectation, code?: string): any of a function: that it throws; returns what it threw

---@param value any
---@return moonport.Expectation
function expect(value) end

---Lets time pass on the node: timers that fall due fire, and messages with a delay arrive.
---@param duration moonport.Duration
function advance(duration) end

---Crashes the node and opens it again.
function restart() end

---What the object has told so far.
---@param object string|moonport.Reference "Class/key" or a reference
---@return { number: integer, name: string, data: any }[]
function events(object) end

---Runs a unit.
---@param name string
---@param request? { method?: string, path?: string, query?: table, headers?: table, body?: any }
---@return { status: integer, headers: table<string, string>, body: any }
function unit(name, request) end

---Who calls from here on: `caller` of the methods.
---@param who { id?: string, claims?: table }
function call_as(who) end
