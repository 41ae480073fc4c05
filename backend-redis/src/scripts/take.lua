-- Takes the lock for an owner where nothing can be said against it: this epoch, no quarantine, in time,
-- a lease and a floor that are allowed, and a clock past all tokens. Returns the token, or nil where it is not as
-- simple. What is in the way, such as a queue or a tombstone, is the caller's to see. KEYS and the first ARGV
-- are those of unpack_acquire.lua.
local function take(owner, label, lease, floor)
  local call = redis.call
  local e = call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark')
  if not (e[1] and e[2] and e[3] and e[4] and e[5]) then return nil end
  local known = e[1] .. ' ' .. e[2] .. ' ' .. e[3] .. ' ' .. e[4]
  if known ~= ARGV[1] and (string.sub(ARGV[1], 1, #known + 1) ~= known .. ' '
    or not string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true)) then
    return nil
  end
  local time = call('TIME')
  -- As text, since to format a number costs as much as a command.
  local text = time[1] .. string.sub('00000' .. time[2], -6)
  local now = text + 0
  if now > ARGV[2] + 0 or e[5] + 0 > now or (e[6] or 0) + 0 >= now or (floor or 0) + 0 >= now
    or lease * 1000 > e[3] + 0 then
    return nil
  end
  call('HSET', KEYS[1], 'mark', text)
  call('SET', KEYS[2], owner .. ' ' .. text .. ' 0 ' .. label, 'PX', lease)
  return text
end
