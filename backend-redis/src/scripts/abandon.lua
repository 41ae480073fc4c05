-- Makes sure that an owner holds nothing, waits for nothing, and never will.
-- ARGV: 5 owner
redis.call('SET', KEYS[5], '1', 'PX', TOMB_MS)
if redis.call('HDEL', KEYS[4], ARGV[5]) == 1 then redis.call('LREM', KEYS[3], 1, ARGV[5]) end
local owner, _, state = parse(redis.call('GET', KEYS[2]))
-- What was released and is kept stays.
if owner ~= ARGV[5] or state == '1' then return 0 end
redis.call('DEL', KEYS[2])
local now = clock()
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if mark then try_pass_on(now, mark) end
return 1
