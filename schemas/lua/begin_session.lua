-- KEYS session state, touched, sessions, principals; ARGV session, ttl (s), gap (ms). Clears the breadcrumbs and returns the new
-- instance. The time since the last call counts for the clock like that between any two calls.
local now = now_ms()
local instance = math.max(now, tonumber(redis.call('HGET', KEYS[1], 'instance') or '0') + 1)
local _, ticked, owed = use_session(KEYS[1], now, tonumber(ARGV[3]), false)
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'instance', instance, 'seen', now, 'ticked', ticked, 'owed', owed)
redis.call('EXPIRE', KEYS[1], ARGV[2])
list_session(KEYS, ARGV[1], now, ARGV[2])
return instance
