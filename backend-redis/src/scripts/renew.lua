-- Renews grants. It grants nothing, so it asks for no epoch.
-- KEYS: the locks. ARGV: owner and lease ms of each. Answers: 1 renewed, 2 somebody else's, 0 gone.
local answers = {}
for at = 1, #KEYS do
  local owner, lease = ARGV[2 * at - 1], tonumber(ARGV[2 * at])
  local record = redis.pcall('GET', KEYS[at])
  local answer = 0
  if type(record) == 'table' then
    -- A key of another type is somebody else's, and no reason to fail the others.
    if not string.find(record.err, 'WRONGTYPE', 1, true) then return record end
    answer = 2
  elseif record then
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
