-- Renews grants: see renewal.lua.
-- KEYS: the locks, then the epoch record, unless the caller has read it
-- args: grants...
--       owner and lease ms of each lock
-- Answers: 1 renewed, 2 somebody else's, 0 gone; last the longest lease in µs, or 0. Or that of
--       `unknown`.

local function reader_end(record, owner)
  -- include readers_line
  local line = readers_line(record)
  -- guard: renew_reader | S4 | a_reader_that_left_renews_nothing |
  --   local at = line and (string.find(record, owner, line, true) or line + 1)
  local at = line and string.find(record, owner, line, true)
  return at and at + 33
end
-- include renewal
local time = redis.call('TIME')
local now, answers, count = time[1] * 1000000 + time[2], {}, #ARGV / 2
local epoch = KEYS[count + 1] and redis.call('HMGET', KEYS[count + 1], 'longest', 'version') or {}
local longest, refusal = epoch[1] or 0, nil
-- include version
if epoch[2] ~= VERSION then
  -- include unknown
  refusal = unknown(epoch[2], epoch[1])
end
-- guard: renew_version | S1 | another_version_is_refused
if refusal then return refusal end
local most = longest == 0 and math.huge or math.ceil(longest / 1000)
for at = 1, count do
  answers[at] = renew(KEYS[at], ARGV[grants + 2 * at - 2], ARGV[grants + 2 * at - 1], most, now)
end
answers[count + 1] = longest
return answers
