-- KEYS job tries; ARGV old payload, new payload. Returns -1 (it changed meanwhile: look again), 0 (done; the job was
-- never begun) or 1 (done; somebody had begun it).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('SET', KEYS[1], ARGV[2])
return redis.call('EXISTS', KEYS[2])
