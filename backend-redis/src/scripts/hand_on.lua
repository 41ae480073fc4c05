-- hand_on
-- The same where others wait: the lock goes to the first live place, and the process's own next request, if
-- one comes along, behind the last. What is in doubt goes the long way, which finds a queue that is sound. Answer: 1;
-- the token, where the next request is first; or to a next request that waits
-- 'retry-ms remaining-ms owner token state label', of who has the lock now.
if not is_free and mine and (ARGV[4] or '') == '' then
  local call, next_ = redis.call, ARGV[5] or ''
  local text, longest = open()
  local now = text and text + 0
  -- How many wait; the exact number matters only to a next request.
  local number = now and next_ == '' and 1
  if now and next_ ~= '' and ARGV[6] * 1000 <= longest and ARGV[8] + 0 < now
    and call('EXISTS', KEYS[5]) == 0 then
    local until_ = string.sub(text, 1, -7) + LIFE_US / 1000000 .. string.sub(text, -6)
    local place = table.concat({until_, ARGV[6], ARGV[8], ARGV[9], ARGV[7]}, ' ')
    -- Refused where memory is short: the long way frees the lock first.
    if redis.pcall('HSET', KEYS[4], next_, place) == 1 then
      number = call('RPUSH', KEYS[3], next_)
      if call('PTTL', KEYS[3]) < TOMB_MS / 2 then
        call('PEXPIRE', KEYS[3], TOMB_MS)
        call('PEXPIRE', KEYS[4], TOMB_MS)
      end
    end
  end
  while number do
    local owner = call('LPOP', KEYS[3])
    if not owner then break end
    local place = call('HGET', KEYS[4], owner)
    call('HDEL', KEYS[4], owner)
    local until_, lease, floor, channel, label =
      string.match(place or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if until_ and until_ + 0 > now and until_ + 0 <= now + LIFE_US then
      local token = floor + 0 < now and text or string.format('%.0f', floor + 1)
      call('HSET', KEYS[1], 'mark', token)
      local own = owner == next_
      local given = owner .. ' ' .. token .. (own and ' 0 ' or ' 2 ') .. label
      call('SET', KEYS[2], given, 'PX', own and lease or CLAIM_MS)
      if own then return token end
      local sharded = string.find(channel, '}:spush:', 1, true)
      call(sharded and 'SPUBLISH' or 'PUBLISH', channel, owner .. ' ' .. token .. ' ' .. CLAIM_MS)
      if next_ == '' then return 1 end
      return (number <= NEAR and NEAR_MS or FAR_MS) .. ' ' .. CLAIM_MS .. ' ' .. given
    end
  end
end
