-- KEYS dead letters, their index, mailbox, wakeups, depth, job, bytes of the letters; ARGV id, job id, payload, bound.
-- Puts a dead letter back into its mailbox. Returns 1, or 0 when it is gone or the mailbox is full.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if enqueue(KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[2], ARGV[3], tonumber(ARGV[4]), now_ms()) ~= -1 then return 0 end
return drop_letter(KEYS[1], KEYS[2], KEYS[7], ARGV[1])
