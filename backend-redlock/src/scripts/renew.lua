-- Renews grants on one node: see renewal.lua of backend-redis.
-- KEYS: 1 epoch record, then the locks
-- args: ahead_after grants...
--       the clock after which this clock is ahead; owner and lease ms of each lock
-- Answer: {'renewed', clock, answers, the longest lease in µs or 0}; answers: 1 renewed, 2 somebody
--       else's, 0 gone. Or that of `unknown` of backend-redis.
-- Each reader has its own line in the record: see acquire.lua.
local function reader_end(record, owner)
  -- include readers_line
  local from = readers_line(record) and string.find(record, '\n' .. owner .. ' ', 1, true)
  return from and string.match(record, '^%d+ %d+ ()%d', from + 34)
end
-- include renewal
local time, answers = redis.call('TIME'), {}
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local epoch = redis.call('HMGET', KEYS[1], 'longest', 'version')
local longest, refusal = epoch[1] or 0, nil
-- include version
if epoch[2] ~= VERSION then
  -- include unknown
  refusal = unknown(epoch[2], epoch[1])
end
-- guard: renew_version | S1 | another_version_is_refused
if refusal then return refusal end
local most = longest == 0 and math.huge or math.ceil(longest / 1000)
for at = 2, #KEYS do
  answers[at - 1] = renew(KEYS[at], ARGV[grants + 2 * at - 4], ARGV[grants + 2 * at - 3], most, now)
end
-- Last, since it may need memory: see epoch.lua of backend-redis.
if now > tonumber(ahead_after) and now > tonumber(redis.call('HGET', KEYS[1], 'clock') or now) then
  -- Written for the time when the clock has come back: see acquire.lua.
  -- guard: renew_notes_clock | S1 | a_clock_that_came_back(renewing)
  redis.pcall('HSET', KEYS[1], 'clock', stamp)
end
return {'renewed', stamp, answers, longest}
