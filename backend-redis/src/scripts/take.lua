-- The short way to a grant, for acquire.lua and release.lua. It refuses all that the long way refuses (`gate` and `mint`
-- of common.lua, and the checks of acquire.lua): change both together.
-- KEYS and the first two ARGV are those of acquire.lua.

-- include version.lua
-- Returns the time, as text of 16 digits, and the longest lease, if nothing stands against a grant: same epoch, no
-- quarantine, in time, and a clock past all tokens. Returns nil in any other case.
local function open()
  local call = redis.call
  local e = call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark', 'version')
  if not (e[1] and e[2] and e[3] and e[4] and e[5]) then return nil end
  -- guard: short_version
  if e[7] ~= VERSION then return nil end
  local known = e[1] .. ' ' .. e[2] .. ' ' .. e[3] .. ' ' .. e[4]
  if known ~= ARGV[1] then
    -- guard: short_epoch
    if string.sub(ARGV[1], 1, #known + 1) ~= known .. ' ' then return nil end
    -- A replica may be promoted here. Two failovers in a row may have gone unnoticed.
    -- guard: short_failover
    if not string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true) then return nil end
  end
  local time = call('TIME')
  -- As text, since formatting a number costs as much as a command.
  local text = time[1] .. string.sub('00000' .. time[2], -6)
  local now = text + 0
  -- guard: short_late
  if now > ARGV[2] + 0 then return nil end
  -- guard: short_quarantine
  if e[5] + 0 > now then return nil end
  -- guard: short_watermark
  if (tonumber(e[6] or 0) or now) >= now then return nil end
  return text, e[3] + 0
end

-- Takes the lock for a writer, if nothing stands against that, its lease or its floor. Returns the token, or nil in any
-- other case. The caller has already checked for a record, a queue and a tombstone.
local function take(owner, label, lease, floor)
  local text, longest = open()
  if not text then return nil end
  -- guard: short_floor
  if (floor or 0) + 0 >= text + 0 then return nil end
  -- guard: short_lease
  if lease * 1000 > longest then return nil end
  -- Refused if memory is short. Then the long way of a release frees the lock first.
  -- guard: short_mark
  if type(redis.pcall('HSET', KEYS[1], 'mark', text)) ~= 'number' then return nil end
  redis.call('SET', KEYS[2], owner .. ' ' .. text .. ' 0 ' .. label, 'PX', lease)
  return text
end

