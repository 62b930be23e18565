"""The Lua scripts that both halves of the queue run in Redis: each is one atomic step and one round trip.

Times are milliseconds of the server's clock. Keys are passed by name, or built from a prefix that was passed; all are
of one lane. Behind KEYS comes the lane's guard, if it has one: see schemas/keys.py.
"""

import hashlib
from typing import Final

import msgspec

_PRELUDE: Final = """
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function wake(wakeups)
  redis.call('LPUSH', wakeups, '1')
  redis.call('LTRIM', wakeups, 0, 63)
end
local function commands_in(job_id)
  return tonumber(string.match(job_id, '%.(%d+)$')) or 1
end
-- The counter means 0 while the mailbox is empty, so that an error in it cannot last.
local function depth_of(mailbox, depth_key)
  if redis.call('ZCARD', mailbox) == 0 then return 0 end
  return math.max(0, tonumber(redis.call('GET', depth_key) or '0'))
end
-- Take a job in and return -1, or return how many commands there is room for when it does not fit wholly.
-- A job that is there already counts as taken.
local function enqueue(mailbox, wakeups, depth_key, job_key, job_id, payload, bound, at)
  local count, depth = commands_in(job_id), depth_of(mailbox, depth_key)
  if depth + count > bound then
    if redis.call('EXISTS', job_key) == 1 then return -1 end
    return math.max(0, bound - depth)
  end
  if redis.call('SET', job_key, payload, 'NX') then
    redis.call('ZADD', mailbox, at, job_id)
    redis.call('SET', depth_key, depth + count)
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
-- Note that a session has breadcrumbs, and forget those whose breadcrumbs are gone.
local function list_session(sessions, session, now, ttl)
  redis.call('ZADD', sessions, now + ttl * 1000, session)
  redis.call('ZREMRANGEBYSCORE', sessions, '-inf', now)
  redis.call('EXPIRE', sessions, ttl)
end
"""


_NUMBERS: Final = {
    # How long a command must have waited to show that the workers are busy: with room they take it within a few ms.
    "WAITING_MS": 50,
    "FADE_MS": 2_500,  # of busy time, after which what was served counts for a third
    "KNOWN_MS": 1_000,  # of busy time, before which nothing is refused
    "FRESH_MS": 10_000,  # after which a rate that nobody has seen since may be wrong: workers may have come or gone
    "RATE_TTL_MS": 60_000,  # how long it is kept to go on from
    # Answers that wait for one gateway: so many are always kept; beyond, while there are fewer bytes.
    "FEW_REPLIES": 64,
    "REPLY_BYTES": 64 * 1024 * 1024,
    "STAY_AWAY_MS": 8_000,  # longest time that a refused caller is told to wait, but for that quarter
}
_OWED_BYTES: Final = 2_000  # of times in which a session was only read by the gateway, so that no command has told them


class Script(msgspec.Struct, frozen=True):
    """A script's text and the digest by which EVALSHA calls it."""

    text: str
    sha: str


def _script(body: str, *, allow_oom: bool = True, reads: bool = False) -> Script:
    # A Redis at maxmemory still lets what is in it drain, be read and be cleaned up; only new writes are refused.
    text = _PRELUDE.replace("OWED_BYTES", str(_OWED_BYTES)) + body
    for name, number in _NUMBERS.items():
        text = text.replace(name, str(number))
    # One that only reads is run by a server that takes no writes, too.
    flags = " flags=no-writes,allow-stale" if reads else " flags=allow-oom" if allow_oom else ""
    text = f"#!lua{flags}\n{text}"
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


# KEYS mailbox wakeups depth job rate; ARGV job id, payload, bound, longest wait to be expected (ms, 0: any), how many
# commands are taken whatever they have to expect. Returns -1 (taken), or with nothing taken how many commands there is
# room for and after how many milliseconds there is likely more (0: unknown). The wait that a command has to expect is
# depth / rate; nothing is refused for it while the rate is not known, or while there are too few commands to keep the
# workers busy.
_ENQUEUE: Final = """
local now, bound, longest, fewest = now_ms(), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local rate, full = rate_of(KEYS[5], now)
if rate and longest > 0 then bound = math.min(bound, math.max(full, fewest, math.floor(longest * rate))) end
local room = enqueue(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2], bound, now)
if room == -1 then return -1 end
local wait = 0
if rate then
  wait = stay_away(KEYS[5], rate, depth_of(KEYS[1], KEYS[3]) - bound, commands_in(ARGV[1]) - room, now)
end
return {room, wait}
"""
ENQUEUE_WRITES: Final = _script(_ENQUEUE, allow_oom=False)
ENQUEUE_READS: Final = _script(_ENQUEUE)

# KEYS mailbox wakeups depth; ARGV token, lease, commands wanted, most jobs to look at, prefixes of job, lease, tries,
# and how many poison jobs may be taken (0 or 1). A poison job was begun POISON_TRIES times and never ended: it may be
# what kills its workers, so a process runs one at a time. Returns 1 when more is ready, milliseconds until the next job
# is due (-1: unknown), 1 when a poison job was left for later, then id, payload, tries of each.
POISON_TRIES: Final = 2
CLAIM: Final = _script(
    """
local mailbox, wakeups, depth_key = KEYS[1], KEYS[2], KEYS[3]
local token, lease, wanted, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local job_key, lease_key, tries_key = ARGV[5], ARGV[6], ARGV[7]
local poison_jobs = tonumber(ARGV[8])
local now = now_ms()
local ids = redis.call('ZRANGEBYSCORE', mailbox, '-inf', now, 'LIMIT', 0, most)
local more, left, out = false, 0, {0, -1, 0}
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
""".replace("POISON_TRIES", str(POISON_TRIES))
)

# KEYS mailbox; ARGV lease, prefix of lease, then id and token of each job. Returns 1 (renewed) or 0 (lost) for each.
RENEW: Final = _script("""
local lease, now, out = tonumber(ARGV[1]), now_ms(), {}
for i = 3, #ARGV, 2 do
  local key = ARGV[2] .. ARGV[i]
  if redis.call('GET', key) == ARGV[i + 1] then
    redis.call('PEXPIRE', key, lease)
    redis.call('ZADD', KEYS[1], 'XX', now + lease, ARGV[i])
    out[#out + 1] = 1
  else
    out[#out + 1] = 0
  end
end
return out
""")

# KEYS mailbox wakeups; ARGV token, lease, prefixes of lease and tries. Gives back what a claim took whose answer was
# lost.
RELEASE: Final = _script("""
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
""")

# KEYS wakeups. A worker that stops may have taken a wake-up for a job that it will not claim.
WAKE: Final = _script("wake(KEYS[1])")

# Everything that a worker does with a job that it holds. KEYS lease; ARGV token, then steps, each a word, the number of
# its arguments and these. Returns 0 with nothing done when the lease is not this worker's any more, else 1, or when
# sessions were used: now, then instance, ticked and owed of each (see use_session).
#   end     mailbox, depth, job, tries, job id, rate, how many of its commands were served: the job is over
#   reply   reply list, ttl (s), answers...; left out when the gateway reads none and too many bytes wait for it
#   job     mailbox, wakeups, depth, job, tries, job id, payload, bound, delay (ms), tries so far: retry or follow-up
#   dead    dead letters, their index, their bytes, id, letter, most to keep, most bytes: the oldest go, never the last
#   session_state  session state, touched, sessions, session, ttl (s), gap (ms), most to keep, stored ('' none),
#           recalled ('-' none, else ids each with a newline), touched ids...
SETTLE: Final = _script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local now = now_ms()
local steps, used = {}, {now}
steps['end'] = function(a)
  note_served(a[1], a[6], depth_of(a[1], a[2]), tonumber(a[7]), string.sub(a[4], 1, -#a[5] - 1), now)
  redis.call('ZREM', a[1], a[5])
  redis.call('DEL', a[3], a[4], KEYS[1])
  subtract(a[2], commands_in(a[5]))
end
steps['reply'] = function(a)
  if redis.call('LLEN', a[1]) >= FEW_REPLIES and redis.call('MEMORY', 'USAGE', a[1]) > REPLY_BYTES then return end
  redis.call('RPUSH', a[1], unpack(a, 3))
  redis.call('EXPIRE', a[1], a[2])
end
steps['job'] = function(a)
  local taken = enqueue(a[1], a[2], a[3], a[4], a[6], a[7], tonumber(a[8]), now + a[9])
  if taken == -1 and a[10] ~= '0' then redis.call('SET', a[5], a[10]) end
end
steps['dead'] = function(a)
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
steps['session_state'] = function(a)
  local instance, ticked, owed = use_session(a[1], now, tonumber(a[6]), true)
  used[#used + 1] = instance
  used[#used + 1] = ticked
  used[#used + 1] = owed
  if a[8] ~= '' then redis.call('HSET', a[1], 'stored', a[8]) end
  if a[9] ~= '-' then redis.call('HSET', a[1], 'recalled', a[9]) end
  if a[10] then
    local order = redis.call('HINCRBY', a[1], 'clock', #a - 9) - (#a - 9)
    local pairs_ = {}
    for i = 10, #a do
      pairs_[#pairs_ + 1] = order + i - 9
      pairs_[#pairs_ + 1] = a[i]
    end
    redis.call('ZADD', a[2], 'NX', unpack(pairs_))
    redis.call('ZREMRANGEBYRANK', a[2], 0, -a[7] - 1)
  end
  redis.call('EXPIRE', a[1], a[5])
  redis.call('EXPIRE', a[2], a[5])
  list_session(a[3], a[4], now, a[5])
end
local i = 2
while i <= #ARGV do
  local count = tonumber(ARGV[i + 1])
  local arguments = {}
  for j = 1, count do arguments[j] = ARGV[i + 1 + j] end
  steps[ARGV[i]](arguments)
  i = i + 2 + count
end
if #used == 1 then return 1 end
return used
""")

# KEYS session state, touched, sessions; ARGV session, ttl (s), gap (ms). Clears the breadcrumbs and returns the new
# instance. The time since the last call counts for the clock like that between any two calls.
BEGIN_SESSION: Final = _script("""
local now = now_ms()
local instance = math.max(now, tonumber(redis.call('HGET', KEYS[1], 'instance') or '0') + 1)
local _, ticked, owed = use_session(KEYS[1], now, tonumber(ARGV[3]), false)
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'instance', instance, 'seen', now, 'ticked', ticked, 'owed', owed)
redis.call('EXPIRE', KEYS[1], ARGV[2])
list_session(KEYS[3], ARGV[1], now, ARGV[2])
return instance
""")

# KEYS session state, touched, sessions; ARGV session, ttl (s), gap (ms), 1 to have the touched ids too.
# Reading is a use of the session: it slides the expiry. Returns stored, recalled, milliseconds of expiry, touched; or
# nothing when there are no breadcrumbs.
READ_SESSION: Final = _script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local now = now_ms()
use_session(KEYS[1], now, tonumber(ARGV[3]), false)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
list_session(KEYS[3], ARGV[1], now, ARGV[2])
local found = redis.call('HMGET', KEYS[1], 'stored', 'recalled')
local touched = {}
if ARGV[4] == '1' then touched = redis.call('ZRANGE', KEYS[2], 0, -1) end
return {found[1] or '', found[2] or '', now + ARGV[2] * 1000, touched}
""")

# KEYS session state, touched; ARGV memory ids. Takes erased memories out of a session; what was recalled keeps its
# numbering.
SCRUB_SESSION: Final = _script("""
local gone = {}
for _, id in ipairs(ARGV) do gone[id] = true end
local places = redis.call('ZREM', KEYS[2], unpack(ARGV))
local stored = redis.call('HGET', KEYS[1], 'stored')
if stored and gone[stored] then
  redis.call('HDEL', KEYS[1], 'stored')
  places = places + 1
end
local recalled = redis.call('HGET', KEYS[1], 'recalled')
if recalled then
  local kept = {}
  for id in string.gmatch(recalled, '([^\\n]*)\\n') do
    if gone[id] then id = '' places = places + 1 end
    kept[#kept + 1] = id .. '\\n'
  end
  redis.call('HSET', KEYS[1], 'recalled', table.concat(kept))
end
return places
""")

# KEYS erased; ARGV a new mark. Says that something was erased which the append-only file still holds.
MARK_ERASED: Final = _script("redis.call('SET', KEYS[1], ARGV[1])")

# KEYS erased; ARGV the mark that was found. Takes it away; returns 0 when another one is there: more was erased.
UNMARK_ERASED: Final = _script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")

# KEYS job tries; ARGV old payload, new payload. Returns -1 (it changed meanwhile: look again), 0 (done; the job was
# never begun) or 1 (done; somebody had begun it).
SCRUB_JOB: Final = _script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('SET', KEYS[1], ARGV[2])
return redis.call('EXISTS', KEYS[2])
""")

# KEYS dead letters, their index, mailbox, wakeups, depth, job, bytes of the letters; ARGV id, job id, payload, bound.
# Puts a dead letter back into its mailbox. Returns 1, or 0 when it is gone or the mailbox is full.
REVIVE: Final = _script("""
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if enqueue(KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[2], ARGV[3], tonumber(ARGV[4]), now_ms()) ~= -1 then return 0 end
return drop_letter(KEYS[1], KEYS[2], KEYS[7], ARGV[1])
""")

# KEYS dead letters, their index, their bytes; ARGV ids. Removes dead letters for good and returns how many there were.
DROP_LETTERS: Final = _script("""
local dropped = 0
for _, id in ipairs(ARGV) do dropped = dropped + drop_letter(KEYS[1], KEYS[2], KEYS[3], id) end
return dropped
""")

# KEYS schedule; ARGV token, ttl (ms). Keeps a periodic work's lease while it is still this worker's.
KEEP_SCHEDULE: Final = _script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

# KEYS mailbox, depth, rate, index of dead letters, alive of each worker kind; ARGV seconds after which a silent worker
# counts as gone. Returns now, then of each kind: commands waiting or running, milliseconds that the oldest has been
# due, commands served in 1,000 s (-1: unknown), dead letters, living workers.
LOOK: Final = _script(
    """
local now, out = now_ms(), {}
out[1] = now
for i = 1, #KEYS - 4, 5 do
  local first = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  local rate = rate_of(KEYS[i + 2], now)
  out[#out + 1] = depth_of(KEYS[i], KEYS[i + 1])
  out[#out + 1] = first[2] and math.max(0, now - first[2]) or 0
  out[#out + 1] = rate and math.floor(rate * 1000000) or -1
  out[#out + 1] = redis.call('ZCARD', KEYS[i + 3])
  out[#out + 1] = redis.call('ZCOUNT', KEYS[i + 4], now / 1000 - ARGV[1], '+inf')
end
return out
""",
    reads=True,
)
