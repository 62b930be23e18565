-- KEYS page session, page sessions of its principal; ARGV sealed token, name, ttl (s), most. Keeps a token that somebody
-- signed in with. Of a principal so many count; the oldest go.
local now = now_ms()
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
list_name(KEYS[2], ARGV[2], now, ARGV[3])
forget_oldest(KEYS[2], ARGV[4], {string.sub(KEYS[1], 1, -#ARGV[2] - 1)})
return 1
