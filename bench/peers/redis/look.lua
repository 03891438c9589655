-- KEYS: the object's entries, its last value.
local newest = cmsgpack.unpack(redis.call("LINDEX", KEYS[1], -1))
local last = cmsgpack.unpack(redis.call("GET", KEYS[2]))
return { redis.call("LLEN", KEYS[1]), newest.who, last.amount }
