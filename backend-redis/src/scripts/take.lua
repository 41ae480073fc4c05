-- Takes the lock for an owner where nothing can be said against it: this epoch, no quarantine, a lease
-- and a floor that are allowed. Returns the token, or nil where it is not as simple. What is in the way,
-- such as a queue or a tombstone, is the caller's to see. KEYS and ARGV are those of common.lua.
local function take(owner, label, lease, floor)
  local e = redis.call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark')
  if e[1] ~= ARGV[1] or e[2] ~= ARGV[2] or e[3] ~= ARGV[3] or e[4] ~= ARGV[4] then return nil end
  if ARGV[#ARGV] ~= ''
    and not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true) then
    return nil
  end
  local time, longest = redis.call('TIME'), ARGV[3] + 0
  local now = time[1] * 1000000 + time[2]
  local token = math.max(now, (e[6] or 0) + 1, floor + 1)
  if e[5] + 0 > now or floor + 0 > now + longest or lease * 1000 > longest
    or token > 9007199254740991 then
    return nil
  end
  local text = string.format('%.0f', token)
  redis.call('HSET', KEYS[1], 'mark', text)
  redis.call('SET', KEYS[2], owner .. ' ' .. text .. ' 0 ' .. label, 'PX', lease)
  return token
end
