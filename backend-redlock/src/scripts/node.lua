-- What a node tells of itself.

-- part: hello
-- Asks a node for its clock and settings.
-- KEYS: 1 epoch record. Answer: {'hello', clock, longest lease µs or '', quarantine or ''}
local time = redis.call('TIME')
local e = redis.call('HMGET', KEYS[1], 'longest', 'quarantine')
return {'hello', string.format('%.0f', time[1] * 1000000 + time[2]), e[1] or '', e[2] or ''}

-- part: highest
-- The highest of a node's watermarks.
-- KEYS: 1 epoch record. Answer: {'highest', clock, the watermark}, or that of `unknown` of
-- backend-redis
-- include unknown
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local time, marks = redis.call('TIME'), {'top'}
-- As many as `WATERMARKS` of tunables.rs.
for at = 0, 1023 do marks[#marks + 1] = 'mark' .. at end
local highest = 0
for _, mark in ipairs(redis.call('HMGET', KEYS[1], unpack(marks))) do
  -- A watermark that is not a number leaves no token to grant.
  if mark then highest = math.max(highest, tonumber(mark) or 9007199254740991) end
end
return {'highest', string.format('%.0f', time[1] * 1000000 + time[2]),
  string.format('%.0f', math.min(highest, 9007199254740991))}
