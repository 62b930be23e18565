-- KEYS mailbox; ARGV lease, prefix of lease, then id and token of each job. Returns 1 (renewed), 0 (lost) or
-- -1 (nobody waits for it any more) for each.
local lease, now, out = tonumber(ARGV[1]), now_ms(), {}
for i = 3, #ARGV, 2 do
  local key = ARGV[2] .. ARGV[i]
  local held = redis.call('GET', key)
  if held == ARGV[i + 1] then
    redis.call('PEXPIRE', key, lease)
    redis.call('ZADD', KEYS[1], 'XX', now + lease, ARGV[i])
    out[#out + 1] = 1
  else
    out[#out + 1] = held == ABANDONED and -1 or 0
  end
end
return out
