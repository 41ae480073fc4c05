-- Renews grants. It grants nothing, so it asks for no epoch.
-- KEYS: the locks. ARGV: owner and lease ms of each. Answers: 1 renewed, 2 somebody else's, 0 gone.
local answers = {}
for at = 1, #KEYS do
  local owner, lease = ARGV[2 * at - 1], tonumber(ARGV[2 * at])
  local record = redis.call('GET', KEYS[at])
  local answer = 0
  if record then
    local state = string.match(record, '^%x+ %d+ (%d)')
    if string.sub(record, 1, 32) ~= owner then
      answer = 2
    elseif state == '0' then
      if redis.call('PTTL', KEYS[at]) < lease then redis.call('PEXPIRE', KEYS[at], lease) end
      answer = 1
    elseif state == '2' then
      -- The claim of what was handed over. Its time first, which needs no memory: see common.lua.
      redis.call('PEXPIRE', KEYS[at], lease)
      local claimed = string.gsub(record, '^(%x+ %d+) 2', '%1 0')
      redis.call('SET', KEYS[at], claimed, 'PX', lease)
      answer = 1
    end
  end
  answers[at] = answer
end
return answers
