-- KEYS hash of wrong clocks, then mailbox, depth, rate, index of dead letters, alive of each worker kind; ARGV seconds after
-- which a silent worker counts as gone. Returns now, the processes whose clocks are wrong, each with by how many seconds
-- (negative: behind), then of each kind: commands waiting or running, milliseconds that the oldest has been due, commands
-- served in 1,000 s (-1: unknown), dead letters, living workers.
local now, out, clocks = now_ms(), {}, {}
local told = redis.call('HGETALL', KEYS[1])
for i = 1, #told, 2 do
  local ahead, til = string.match(told[i + 1], '^(%S+) (%S+)$')
  if tonumber(til) * 1000 >= now then
    clocks[#clocks + 1] = told[i]
    clocks[#clocks + 1] = ahead
  end
end
out[1], out[2] = now, clocks
for i = 2, #KEYS - 4, 5 do
  local first = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  local rate = rate_of(KEYS[i + 2], now)
  out[#out + 1] = depth_of(KEYS[i], KEYS[i + 1])
  out[#out + 1] = first[2] and math.max(0, now - first[2]) or 0
  out[#out + 1] = rate and math.floor(rate * 1000000) or -1
  out[#out + 1] = redis.call('ZCARD', KEYS[i + 3])
  out[#out + 1] = redis.call('ZCOUNT', KEYS[i + 4], now / 1000 - ARGV[1], '+inf')
end
return out
