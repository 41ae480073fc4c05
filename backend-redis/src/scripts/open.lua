-- The time, as text of 16 digits, and the longest lease, where nothing can be said against a grant: this
-- epoch, no quarantine, in time, and a clock past all tokens; nil where it is not as simple. KEYS and the
-- first ARGV are those of unpack_acquire.lua.
local function open()
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
  if now > ARGV[2] + 0 or e[5] + 0 > now or (tonumber(e[6] or 0) or now) >= now then return nil end
  return text, e[3] + 0
end
