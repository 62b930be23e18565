-- Everything that a worker does with a job that it holds. KEYS lease; ARGV token, then actions, each a word, how many
-- arguments it has, and these. Returns 0 with nothing done when the lease is not this worker's any more (-1 when nobody
-- waits for the job any more), else 1, or when sessions were used: now, then instance, ticked and owed of each (see
-- use_session).
--   end     mailbox, depth, job, tries, job id, rate, how many of its commands were served: the job is over
--   reply   reply list, ttl (s), answers...; left out when the gateway reads none and too many bytes wait for it
--   refuse  until when (ms) its caller waits, then what `reply` takes, then what `job` takes: a write that was not applied is
--           refused while its caller surely hears of it; later that may have been told `pending`, and the job is tried again
--   job     mailbox, wakeups, depth, job, tries, job id, payload, bound, delay (ms), tries so far: retry or follow-up
--   dead    dead letters, their index, their bytes, id, letter, most to keep, most bytes: the oldest go, never the last
--   session_state  session state, touched, sessions, principals, session, ttl (s), gap (ms), most to keep, stored
--           ('' none), recalled ('-' none, else ids each with a newline), touched ids...
local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then return held == ABANDONED and -1 or 0 end
local now = now_ms()
local actions, used = {}, {now}
actions['end'] = function(a)
  note_served(a[1], a[6], depth_of(a[1], a[2]), tonumber(a[7]), string.sub(a[4], 1, -#a[5] - 1), now)
  redis.call('ZREM', a[1], a[5])
  redis.call('DEL', a[3], a[4], KEYS[1])
  leave(a[2], a[5])
end
actions['reply'] = function(a)
  if redis.call('LLEN', a[1]) >= FEW_REPLIES and redis.call('MEMORY', 'USAGE', a[1]) > REPLY_BYTES then return end
  redis.call('RPUSH', a[1], unpack(a, 3))
  redis.call('EXPIRE', a[1], a[2])
end
actions['job'] = function(a)
  local taken = enqueue(a[1], a[2], a[3], a[4], a[6], a[7], tonumber(a[8]), now + a[9])
  if taken == -1 and a[10] ~= '0' then redis.call('SET', a[5], a[10]) end
end
actions['refuse'] = function(a)
  if now + HEARD_MS < tonumber(a[1]) then actions['reply']({a[2], a[3], a[4]}) else actions['job']({unpack(a, 5)}) end
end
actions['dead'] = function(a)
  drop_letter(a[1], a[2], a[3], a[4])
  letter_bytes(a[1], a[3])
  redis.call('HSET', a[1], a[4], a[5])
  redis.call('ZADD', a[2], now, a[4])
  local bytes = redis.call('INCRBY', a[3], #a[5])
  local letters = redis.call('ZCARD', a[2])
  while letters > tonumber(a[6]) or (letters > 1 and bytes > tonumber(a[7])) do
    drop_letter(a[1], a[2], a[3], redis.call('ZRANGE', a[2], 0, 0)[1])
    bytes, letters = tonumber(redis.call('GET', a[3])), letters - 1
  end
end
actions['session_state'] = function(a)
  local instance, ticked, owed = use_session(a[1], now, tonumber(a[7]), true)
  used[#used + 1] = instance
  used[#used + 1] = ticked
  used[#used + 1] = owed
  if a[9] ~= '' then redis.call('HSET', a[1], 'stored', a[9]) end
  if a[10] ~= '-' then redis.call('HSET', a[1], 'recalled', a[10]) end
  if a[11] then
    local order = redis.call('HINCRBY', a[1], 'clock', #a - 10) - (#a - 10)
    local pairs_ = {}
    for i = 11, #a do
      pairs_[#pairs_ + 1] = order + i - 10
      pairs_[#pairs_ + 1] = a[i]
    end
    redis.call('ZADD', a[2], 'NX', unpack(pairs_))
    redis.call('ZREMRANGEBYRANK', a[2], 0, -a[8] - 1)
  end
  redis.call('EXPIRE', a[1], a[6])
  redis.call('EXPIRE', a[2], a[6])
  list_session(a, a[5], now, a[6])
end
local i = 2
while i <= #ARGV do
  local count = tonumber(ARGV[i + 1])
  local arguments = {}
  for j = 1, count do arguments[j] = ARGV[i + 1 + j] end
  actions[ARGV[i]](arguments)
  i = i + 2 + count
end
if #used == 1 then return 1 end
return used
