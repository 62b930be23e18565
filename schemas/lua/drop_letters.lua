-- KEYS dead letters, their index, their bytes; ARGV ids. Removes dead letters for good and returns how many there were.
local dropped = 0
for _, id in ipairs(ARGV) do dropped = dropped + drop_letter(KEYS[1], KEYS[2], KEYS[3], id) end
return dropped
