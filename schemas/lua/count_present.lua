-- KEYS zset of those who are there; ARGV seconds after which a silent member counts as gone. Returns how many there are.
return redis.call('ZCOUNT', KEYS[1], now_ms() / 1000 - ARGV[1], '+inf')
