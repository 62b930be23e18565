-- KEYS mailbox depth job lease tries; ARGV job id. Nobody waits for a job of reads any more: it is over. The worker that has begun it
-- learns so when its lease is renewed or the job is to end. Returns 1, or 0 when it had ended.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('DEL', KEYS[3], KEYS[5])
leave(KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[4]) == 1 then redis.call('SET', KEYS[4], ABANDONED, 'PX', ABANDONED_MS) end
return 1
