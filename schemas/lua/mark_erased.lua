-- KEYS erased, last_erased; ARGV a new mark. Says that something was erased which the append-only file still holds, and
-- which other processes may remember.
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[1])
