-- KEYS mailbox wakeups depth job rate; ARGV job id, payload, bound, longest wait to be expected (ms, 0: any), how many
-- commands are taken whatever they have to expect. Returns -1 (taken), or with nothing taken how many commands there is
-- room for, after how many milliseconds there is likely more (0: unknown), and 1 when it is the namespace that has its
-- share of the mailbox. The wait that a command has to expect is depth / rate; nothing is refused for it while the rate is
-- not known, or while there are too few commands to keep the workers busy.
local now, bound, longest, fewest = now_ms(), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local rate, full = rate_of(KEYS[5], now)
if rate and longest > 0 then bound = math.min(bound, math.max(full, fewest, math.floor(longest * rate))) end
local room, of_its_own = enqueue(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2], bound, now)
if room == -1 then return -1 end
local wait = 0
if rate then
  wait = stay_away(KEYS[5], rate, depth_of(KEYS[1], KEYS[3]) - bound, commands_in(ARGV[1]) - room, now)
end
return {room, wait, of_its_own and 1 or 0}
