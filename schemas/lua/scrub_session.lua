-- KEYS session state, touched; ARGV memory ids. Takes erased memories out of a session; what was recalled keeps its
-- numbering.
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
  for id in string.gmatch(recalled, '([^\n]*)\n') do
    if gone[id] then id = '' places = places + 1 end
    kept[#kept + 1] = id .. '\n'
  end
  redis.call('HSET', KEYS[1], 'recalled', table.concat(kept))
end
return places
