-- KEYS erased; ARGV the mark that was found. Takes it away; returns 0 when another one is there: more was erased.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
