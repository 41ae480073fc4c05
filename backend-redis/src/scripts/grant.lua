-- part: grant
-- Gives the free lock, for which nobody waits, to a writer. Before it stand `owner`, `lease`,
-- `label`, and `floor`, which may be ''. It returns the token as text, or the refusal, which is a
-- table.
local time, floor = redis.call('TIME'), floor ~= '' and tonumber(floor) or 0
local now = time[1] * 1000000 + time[2]
-- include check_epoch
-- include check_request
local token, shown
-- include make_token
if not shown then return {'exhausted'} end
redis.call('SET', KEYS[2], owner .. ' ' .. shown .. ' 0 ' .. label, 'PX', lease)
do return shown end
