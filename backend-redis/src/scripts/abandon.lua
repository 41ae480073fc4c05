-- Makes sure that an owner holds nothing, waits for nothing, and never will.
-- ARGV: 5 owner
if redis.call('HDEL', KEYS[4], ARGV[5]) == 1 then redis.call('LREM', KEYS[3], 1, ARGV[5]) end
local owner, _, state = parse(read(KEYS[2]))
-- What was released and is kept stays.
local mine = owner == ARGV[5] and state ~= '1'
if mine then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[5], '1', 'PX', TOMB_MS)
if not mine then return 0 end
local now = clock()
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if mark then try(pass_on, now, mark) end
return 1
