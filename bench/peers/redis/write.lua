-- The work of classes/Work.lua as a script of Redis does it: it reads, appends, sets, notes an event and leaves a row behind.
-- KEYS: the object's entries, its last value, its events, the directory. ARGV: the object's name, who, amount.
local before = redis.call("LINDEX", KEYS[1], -1)
local value = cmsgpack.pack({ who = ARGV[2], amount = tonumber(ARGV[3]) })
redis.call("RPUSH", KEYS[1], value)
redis.call("SET", KEYS[2], value)
redis.call("XADD", KEYS[3], "*", "name", "written", "data", value)
redis.call("HSET", KEYS[4], ARGV[1], value)
return before and cmsgpack.unpack(before).amount
