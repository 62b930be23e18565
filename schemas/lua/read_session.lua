-- KEYS session state, touched, sessions, principals; ARGV session, ttl (s), gap (ms), 1 to have the touched ids too.
-- Reading is a use of the session: it slides the expiry. Returns stored, recalled, milliseconds of expiry, touched; or
-- nothing when there are no breadcrumbs.
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local now = now_ms()
use_session(KEYS[1], now, tonumber(ARGV[3]), false)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
list_session(KEYS, ARGV[1], now, ARGV[2])
local found = redis.call('HMGET', KEYS[1], 'stored', 'recalled')
local touched = {}
if ARGV[4] == '1' then touched = redis.call('ZRANGE', KEYS[2], 0, -1) end
return {found[1] or '', found[2] or '', now + ARGV[2] * 1000, touched}
