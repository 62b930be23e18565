-- KEYS erased; ARGV a new mark. Says that something was erased which the append-only file still holds.
redis.call('SET', KEYS[1], ARGV[1])
