-- KEYS mailbox wakeups; ARGV token, lease, prefixes of lease and tries. Gives back what a claim took whose answer was
-- lost.
local now, count = now_ms(), 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, now + ARGV[2], 'LIMIT', 0, 1000)) do
  if redis.call('GET', ARGV[3] .. id) == ARGV[1] then
    redis.call('DEL', ARGV[3] .. id)
    if redis.call('DECR', ARGV[4] .. id) <= 0 then redis.call('DEL', ARGV[4] .. id) end
    redis.call('ZADD', KEYS[1], now, id)
    count = count + 1
  end
end
if count > 0 then wake(KEYS[2]) end
return count
