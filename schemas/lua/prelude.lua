-- What every script begins with. Numbers in capitals are put in by schemas/scripts.py.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
-- What stands in a lease's place when nobody waits for the job any more; no token of a worker's is like it.
local ABANDONED = 'abandoned'
local function wake(wakeups)
  redis.call('LPUSH', wakeups, '1')
  redis.call('LTRIM', wakeups, 0, 63)
end
local function commands_in(job_id)
  return tonumber(string.match(job_id, '%.(%d+)$')) or 1
end
-- The mark of the job's namespace; nothing in mailboxes where namespaces take no turns.
local function mark_of(job_id)
  return string.match(job_id, '%.(%x+)%.%d+$')
end
-- The counter means 0 while the mailbox is empty, so that an error in it cannot last.
local function depth_of(mailbox, depth_key)
  if redis.call('ZCARD', mailbox) == 0 then return 0 end
  return math.max(0, tonumber(redis.call('GET', depth_key) or '0'))
end
-- How many commands of each namespace are in a mailbox where they take turns: a hash, mark -> commands.
local function shares_of(depth_key)
  return depth_key .. ':of'
end
-- Take a job in and return -1, or return how many commands there is room for when it does not fit wholly, and whether that
-- is because its namespace has its share: half of what others leave, where namespaces take turns. A job that is there already
-- counts as taken.
local function enqueue(mailbox, wakeups, depth_key, job_key, job_id, payload, bound, at)
  local count, depth, mark, shares = commands_in(job_id), depth_of(mailbox, depth_key), mark_of(job_id), shares_of(depth_key)
  local room, own_room = bound - depth, bound
  if mark and depth > 0 then
    local own = tonumber(redis.call('HGET', shares, mark) or '0')
    own_room = math.ceil((bound - (depth - own)) / 2) - own
  end
  if count > math.min(room, own_room) then
    if redis.call('EXISTS', job_key) == 1 then return -1 end
    return math.max(0, math.min(room, own_room)), own_room < room
  end
  if redis.call('SET', job_key, payload, 'NX') then
    if mark and redis.call('ZCARD', mailbox) == 0 then redis.call('DEL', shares) end
    redis.call('ZADD', mailbox, at, job_id)
    redis.call('SET', depth_key, depth + count)
    if mark then redis.call('HINCRBY', shares, mark, count) end
    wake(wakeups)
  end
  return -1
end
-- How fast a mailbox is served shows only while its workers are busy, that is while a command that was never begun has
-- been waiting for WAITING_MS. The hash `rate` holds
--   served, busy  commands ended and milliseconds in such times, fading by FADE_MS
--   from          when the last job ended, if commands waited then too
--   at            when commands were last seen to wait
--   full          the fewest commands in the mailbox while some waited: fewer do not keep its workers busy
--   next          up to when refused callers have been told to stay away
local function note_served(mailbox, rate_key, depth, served, tries_prefix, now)
  local first = redis.call('ZRANGE', mailbox, 0, 0, 'WITHSCORES')
  local waiting = first[2] and now - first[2] >= WAITING_MS and redis.call('EXISTS', tries_prefix .. first[1]) == 0
  local found = redis.call('HMGET', rate_key, 'from', 'at', 'served', 'busy', 'full')
  local from, at = tonumber(found[1] or ''), tonumber(found[2] or '')
  if not waiting then
    if from then redis.call('HDEL', rate_key, 'from') end
    return
  end
  local sum, busy, full = tonumber(found[3] or '0'), tonumber(found[4] or '0'), tonumber(found[5] or '')
  full = at and now - at <= FRESH_MS and math.min(full, depth) or depth
  if from and now - from <= FRESH_MS then
    local fade = math.exp((from - now) / FADE_MS)
    sum, busy = sum * fade + served, busy * fade + now - from
  end
  redis.call('HSET', rate_key, 'from', now, 'at', now, 'served', sum, 'busy', busy, 'full', full)
  redis.call('PEXPIRE', rate_key, RATE_TTL_MS)
end
-- Returns the commands a mailbox ends in a millisecond, or nil when that is not known now, and its `full`.
local function rate_of(rate_key, now)
  local found = redis.call('HMGET', rate_key, 'at', 'served', 'busy', 'full')
  local at, sum, busy = tonumber(found[1] or ''), tonumber(found[2] or ''), tonumber(found[3] or '')
  if not at or now - at > FRESH_MS or busy < KNOWN_MS or sum <= 0 then return nil end
  return sum / busy, tonumber(found[4])
end
-- Returns how many milliseconds those refused now should stay away: until what is too much has been served, and after
-- those who were told so before them; a quarter longer, since a rate varies.
local function stay_away(rate_key, rate, excess, refused, now)
  local turn = math.max(tonumber(redis.call('HGET', rate_key, 'next') or '0'), now + math.max(0, excess) / rate)
  turn = math.min(turn + refused / rate, now + STAY_AWAY_MS)
  redis.call('HSET', rate_key, 'next', turn)
  return math.ceil((turn - now) * 1.25)
end
local function subtract(depth_key, count)
  if redis.call('DECRBY', depth_key, count) < 0 then redis.call('SET', depth_key, 0) end
end
-- Count a job's commands no longer.
local function leave(depth_key, job_id)
  local count, mark, shares = commands_in(job_id), mark_of(job_id), shares_of(depth_key)
  subtract(depth_key, count)
  if mark and redis.call('HINCRBY', shares, mark, -count) <= 0 then redis.call('HDEL', shares, mark) end
end
-- How many bytes the dead letters have; counted when that is not known, as after an update.
local function letter_bytes(dead, bytes_key)
  local known = redis.call('GET', bytes_key)
  if known then return tonumber(known) end
  local sum = 0
  for _, id in ipairs(redis.call('HKEYS', dead)) do sum = sum + redis.call('HSTRLEN', dead, id) end
  redis.call('SET', bytes_key, sum)
  return sum
end
local function drop_letter(dead, index, bytes_key, id)
  local size = redis.call('HSTRLEN', dead, id)
  redis.call('ZREM', index, id)
  if redis.call('HDEL', dead, id) == 0 then return 0 end
  if redis.call('EXISTS', dead) == 0 then redis.call('DEL', bytes_key)
  elseif redis.call('EXISTS', bytes_key) == 1 then subtract(bytes_key, size) end
  return 1
end
-- A session's instance is the time it began, so that no two are ever equal. `ticked` is up to when the clock of active
-- hours was told that the session was in use, `owed` what it has not been told of older instances ("from until " each).
-- Returns the instance, ticked and owed as they are when `telling`, which then count as told.
local function use_session(session_state, now, gap, telling)
  local found = redis.call('HMGET', session_state, 'instance', 'seen', 'ticked', 'owed')
  local instance, seen, owed = found[1], tonumber(found[2] or ''), found[4] or ''
  local ticked = tonumber(found[3] or '') or seen
  if not seen or now - seen >= gap then
    if seen and seen > ticked and #owed < OWED_BYTES then owed = owed .. ticked .. ' ' .. seen .. ' ' end
    instance, ticked = now, now
  end
  redis.call('HSET', session_state, 'instance', instance, 'seen', now, 'ticked', telling and now or ticked,
    'owed', telling and '' or owed)
  return instance, ticked, owed
end
-- Note how long a name counts, and forget those that count no longer.
local function list_name(names, name, now, ttl)
  redis.call('ZADD', names, now + ttl * 1000, name)
  redis.call('ZREMRANGEBYSCORE', names, '-inf', now)
  redis.call('EXPIRE', names, ttl)
end
-- Forget the oldest names beyond `most`, each with its keys, which are these prefixes and the name.
local function forget_oldest(names, most, prefixes)
  for _, name in ipairs(redis.call('ZRANGE', names, 0, -most - 1)) do
    for _, prefix in ipairs(prefixes) do redis.call('DEL', prefix .. name) end
    redis.call('ZREM', names, name)
  end
end
-- Note that a session has breadcrumbs. `keys`: its state, touched, sessions, principals. Only the LONG_SESSIONS of a
-- principal that were used last keep all that they touched.
local function list_session(keys, session, now, ttl)
  list_name(keys[3], session, now, ttl)
  list_name(keys[4], keys[3], now, ttl)
  local touched = string.sub(keys[2], 1, -#session - 1)
  forget_oldest(keys[3], SESSIONS_OF_ONE, {string.sub(keys[1], 1, -#session - 1), touched})
  local long = redis.call('ZREVRANGE', keys[3], LONG_SESSIONS, LONG_SESSIONS)[1]
  if long then redis.call('ZREMRANGEBYRANK', touched .. long, 0, -SHORT_SESSION - 1) end
end
