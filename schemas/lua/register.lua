-- KEYS zset of those who are there, hash of wrong clocks; ARGV member of the zset, seconds after which a silent member is
-- forgotten, name of the process, by how many seconds its clock is ahead of this one (0: it is right), for how many seconds
-- that counts. Returns now. The hash holds "seconds ahead, until when it counts" by name.
local now = now_ms() / 1000
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
if ARGV[4] == '0' then
  redis.call('HDEL', KEYS[2], ARGV[3])
else
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4] .. ' ' .. now + ARGV[5])
  redis.call('EXPIRE', KEYS[2], CLOCKS_TTL_S)
end
return now * 1000
