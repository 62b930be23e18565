-- KEYS mailbox wakeups depth; ARGV token, lease, commands wanted, most jobs to look at, prefixes of job, lease, tries,
-- how many poison jobs may be taken (0 or 1); where namespaces take turns, the key of the turns, and from how many jobs
-- to choose. A poison job was begun POISON_TRIES times and never ended: it may be
-- what kills its workers, so a process runs one at a time. Returns 1 when more is ready, milliseconds until the next job
-- is due (-1: unknown), 1 when a poison job was left for later, now, then id, payload, tries of each.
-- Return so many of these jobs, one of each namespace in turn; that which was served longest ago comes first.
local function mark_of(id) return string.match(id, '%.(%x+)%.%d+$') or 'none' end
local function in_turn(ids, turns, most)
  local waiting, marks, served = {}, {}, {}
  for _, id in ipairs(ids) do
    local mark = mark_of(id)
    if not waiting[mark] then
      waiting[mark] = {}
      marks[#marks + 1] = mark
      served[mark] = tonumber(redis.call('HGET', turns, mark) or '0')
    end
    table.insert(waiting[mark], id)
  end
  table.sort(marks, function(a, b) return served[a] < served[b] end)
  local chosen = {}
  for place = 1, #ids do
    for _, mark in ipairs(marks) do
      if #chosen >= most then return chosen end
      chosen[#chosen + 1] = waiting[mark][place]
    end
    if #chosen == #ids then break end
  end
  return chosen
end
local mailbox, wakeups, depth_key = KEYS[1], KEYS[2], KEYS[3]
local token, lease, wanted, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local job_key, lease_key, tries_key = ARGV[5], ARGV[6], ARGV[7]
local poison_jobs = tonumber(ARGV[8])
local turns = ARGV[9]
local now = now_ms()
local ids = redis.call('ZRANGEBYSCORE', mailbox, '-inf', now, 'LIMIT', 0, turns and ARGV[10] or most)
if turns then ids = in_turn(ids, turns, most) end
local more, left, out = false, 0, {0, -1, 0, now}
for _, id in ipairs(ids) do
  if wanted <= 0 then more = true break end
  if redis.call('SET', lease_key .. id, token, 'NX', 'PX', lease) then
    local payload = redis.call('GET', job_key .. id)
    local tries = payload and redis.call('INCR', tries_key .. id)
    if payload and tries > POISON_TRIES and poison_jobs == 0 then
      redis.call('DECR', tries_key .. id)
      redis.call('DEL', lease_key .. id)
      left = left + 1
    elseif payload then
      if tries > POISON_TRIES then poison_jobs = 0 end
      redis.call('ZADD', mailbox, now + lease, id)
      out[#out + 1] = id
      out[#out + 1] = payload
      out[#out + 1] = tries
      wanted = wanted - commands_in(id)
      if turns then
        redis.call('HSET', turns, mark_of(id), redis.call('HINCRBY', turns, 'last', 1))
        redis.call('EXPIRE', turns, TURNS_TTL_S)
      end
    else
      redis.call('DEL', lease_key .. id, tries_key .. id)
      redis.call('ZREM', mailbox, id)
      subtract(depth_key, commands_in(id))
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
