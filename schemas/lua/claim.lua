-- KEYS mailbox wakeups depth; ARGV token, lease, commands wanted, most jobs to look at, prefixes of job, lease, tries,
-- how many poison jobs may be taken (0 or 1); where namespaces take turns, the keys of `waiting` and `turns`. A poison job
-- was begun POISON_TRIES times and never ended: it may be what kills its workers, so a process runs one at a time. Returns
-- 1 when more is ready, milliseconds until the next job is due (-1: unknown), 1 when a poison job was left for later, now,
-- then id, payload, tries of each.
-- A job gets its turn when it is due: one behind the last turn of its namespace, but not before the turn that was claimed
-- last. So who has many jobs waits with the second for the first of everybody else. The mailbox is the truth: `waiting`
-- is only what of it is due, read up to `upto`, and is made anew where the two disagree, as after a write by hand.
-- Give turns to jobs that have become due, so many at most; returns whether all have theirs.
local function give_turns(mailbox, waiting, turns, now)
  local upto = redis.call('HGET', turns, 'upto')
  if not upto then redis.call('DEL', waiting, turns) end
  local found = redis.call('ZRANGEBYSCORE', mailbox, upto or '-inf', now, 'WITHSCORES', 'LIMIT', 0, TURNS_AT_ONCE)
  local full, last = #found == 2 * TURNS_AT_ONCE, found[#found]
  local as_old = full and found[2] == last  -- more than that may have come in this very millisecond
  if as_old then found = redis.call('ZRANGEBYSCORE', mailbox, last, last, 'WITHSCORES') end
  local claimed = tonumber(redis.call('HGET', turns, 'claimed') or '0')
  for i = 1, #found, 2 do
    if not redis.call('ZSCORE', waiting, found[i]) then
      local mark = mark_of(found[i]) or 'none'
      local turn = math.max(claimed, tonumber(redis.call('HGET', turns, mark) or '0') + 1)
      redis.call('HSET', turns, mark, turn)
      redis.call('ZADD', waiting, turn, found[i])
    end
  end
  redis.call('HSET', turns, 'upto', as_old and '(' .. last or full and last or now)
  redis.call('EXPIRE', turns, TURNS_TTL_S)
  redis.call('EXPIRE', waiting, TURNS_TTL_S)
  return not full
end
local mailbox, wakeups, depth_key = KEYS[1], KEYS[2], KEYS[3]
local token, lease, wanted, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local job_key, lease_key, tries_key = ARGV[5], ARGV[6], ARGV[7]
local poison_jobs = tonumber(ARGV[8])
local waiting, turns = ARGV[9], ARGV[10]
local now = now_ms()
local ids
local more, left, out = false, 0, {0, -1, 0, now}
if not turns then
  ids = redis.call('ZRANGEBYSCORE', mailbox, '-inf', now, 'LIMIT', 0, most)
elseif give_turns(mailbox, waiting, turns, now) then
  ids = redis.call('ZRANGE', waiting, 0, most - 1)
  more = redis.call('ZCARD', waiting) ~= redis.call('ZCOUNT', mailbox, '-inf', now)
  if more then redis.call('HDEL', turns, 'upto') end
else
  wake(wakeups)
  return {1, -1, 0, now}
end
for _, id in ipairs(ids) do
  if wanted <= 0 then more = true break end
  local turn = turns and redis.call('ZSCORE', waiting, id)
  if turn then redis.call('ZREM', waiting, id) end
  if turn and tonumber(redis.call('ZSCORE', mailbox, id) or now + 1) > now then
    more = true  -- somebody else has it, or ended it
  elseif redis.call('SET', lease_key .. id, token, 'NX', 'PX', lease) then
    local payload = redis.call('GET', job_key .. id)
    local tries = payload and redis.call('INCR', tries_key .. id)
    if payload and tries > POISON_TRIES and poison_jobs == 0 then
      redis.call('DECR', tries_key .. id)
      redis.call('DEL', lease_key .. id)
      if turn then redis.call('ZADD', waiting, turn, id) end
      left = left + 1
    elseif payload then
      if tries > POISON_TRIES then poison_jobs = 0 end
      redis.call('ZADD', mailbox, now + lease, id)
      if turn then redis.call('HSET', turns, 'claimed', turn) end
      out[#out + 1] = id
      out[#out + 1] = payload
      out[#out + 1] = tries
      wanted = wanted - commands_in(id)
    else
      redis.call('DEL', lease_key .. id, tries_key .. id)
      redis.call('ZREM', mailbox, id)
      leave(depth_key, id)
    end
  else
    redis.call('ZADD', mailbox, now + math.max(1, redis.call('PTTL', lease_key .. id)), id)
  end
end
if left > 0 then out[3] = 1 end
if more or (#ids == most and left < most) then
  out[1] = 1
  wake(wakeups)
elseif left == 0 then
  redis.call('DEL', wakeups)
  local first = redis.call('ZRANGE', mailbox, 0, 0, 'WITHSCORES')
  if first[2] then out[2] = math.max(1, first[2] - now) end
end
return out
