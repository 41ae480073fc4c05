-- Renews grants on one node. It grants nothing, so it asks for no epoch.
-- KEYS: the locks. ARGV: owner and lease ms of each.
-- Answer: {'renewed', clock, answers}: 1 renewed, 2 somebody else's, 0 gone.
local time, answers = redis.call('TIME'), {}
for at = 1, #KEYS do
  local owner, lease = ARGV[2 * at - 1], tonumber(ARGV[2 * at])
  local record = redis.call('GET', KEYS[at])
  local answer = 0
  if record and string.sub(record, 1, 32) ~= owner then
    answer = 2
  elseif record and string.match(record, '^%x+ %d+ (%d)') == '0' then
    if redis.call('PTTL', KEYS[at]) < lease then redis.call('PEXPIRE', KEYS[at], lease) end
    answer = 1
  end
  answers[at] = answer
end
return {'renewed', string.format('%.0f', time[1] * 1000000 + time[2]), answers}
