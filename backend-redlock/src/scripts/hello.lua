-- Asks a node for its clock and settings.
-- KEYS: 1 epoch record. Answer: {'hello', clock, longest lease µs or '', quarantine or ''}
local time = redis.call('TIME')
local e = redis.call('HMGET', KEYS[1], 'longest', 'quarantine')
return {'hello', string.format('%.0f', time[1] * 1000000 + time[2]), e[1] or '', e[2] or ''}
