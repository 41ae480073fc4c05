-- Gives a grant back and hands the lock to the first live place, in one step. It may bring the next request of the
-- same process along.
-- KEYS: 1 epoch record   2 lock   3 queue   4 places   and, with a next request, 5 tombstone of its owner
-- ARGV: 1 and 2 as in acquire.lua   3 owner   and, unless that is all,
--       4 ms to keep the record, or ''
--       5 owner of the next request, or ''   6 its lease ms   7 label   8 floor   9 channel, all as in acquire.lua
--       A reader sends all of them, since the short ways know writers only.
-- Answer: 0 if it was not held, 1 if it was. With a next request: the token, where that was granted;
--       'retry-ms remaining-ms owner token state label' of the client that has the lock now, where the next request
--       waits behind it; otherwise {0 or 1, answer}, with an answer as in acquire.lua.

-- The short ways, in front as in acquire.lua: nobody waits, and nothing is asked for besides.
local is_free = redis.call('EXISTS', KEYS[3]) == 0
local record = redis.pcall('GET', KEYS[2])
-- A key of another type is an error.
local mine = type(record) == 'string'
-- guard: short_release_owner
mine = mine and string.sub(record, 1, 32) == ARGV[3]
-- guard: short_release
if is_free and #ARGV == 3 and type(record) ~= 'table' then
  -- It grants nothing, so it asks for no epoch.
  if mine then redis.call('DEL', KEYS[2]) end
  return mine and 1 or 0
end

-- include take.lua
-- Nobody waits, and the process's own next request comes along: it gets the lock at once.
-- guard: short_next
if is_free and mine and ARGV[4] == '' and ARGV[5] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local token = not string.find(ARGV[8], '^0%d') and take(ARGV[5], ARGV[7], ARGV[6], ARGV[8])
  if token then return token end
end

-- include limits.lua
-- Others wait: the lock goes to the first live place, and a next request behind the last. The same rule as `pass_on`
-- and `heard` of common.lua, which take over where something is in doubt and find a queue that is sound.
-- guard: short_handover
if not is_free and mine and (ARGV[4] or '') == '' then
  local call, next_ = redis.call, ARGV[5] or ''
  local text, longest = open()
  local now = text and text + 0
  -- How many wait; the exact number matters only to a next request.
  local number = now and next_ == '' and 1
  if now and next_ ~= ''
    -- guard: handover_lease
    and ARGV[6] * 1000 <= longest
    -- guard: handover_floor
    and ARGV[8] + 0 < now
    -- guard: handover_tombstone
    and call('EXISTS', KEYS[5]) == 0
  then
    local until_ = string.sub(text, 1, -7) + LIFE_US / 1000000 .. string.sub(text, -6)
    local place = table.concat({until_, ARGV[6], ARGV[8], ARGV[9], ARGV[7]}, ' ')
    -- Refused where memory is short: the long way frees the lock first.
    -- guard: handover_memory
    if redis.pcall('HSET', KEYS[4], next_, place) == 1 then
      number = call('RPUSH', KEYS[3], next_)
      -- guard: handover_queue_life
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
    if place and string.find(place, '^%d+ %d+ 0%d') then
      -- A reader's: others may get in with it. The long way goes on, and finds here that the next request is placed.
      if call('LPUSH', KEYS[3], owner) == 1 then call('PEXPIRE', KEYS[3], TOMB_MS) end
      ARGV[10] = number
      break
    end
    -- guard: handover_place_leaves
    call('HDEL', KEYS[4], owner)
    local until_, lease, floor, channel, label =
      string.match(place or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if until_
      -- guard: handover_dead_place
      and until_ + 0 > now
      -- guard: handover_future_place
      and until_ + 0 <= now + LIFE_US
    then
      local token = text
      -- guard: handover_above_floor
      if floor + 0 >= now then token = string.format('%.0f', floor + 1) end
      -- guard: handover_mark
      call('HSET', KEYS[1], 'mark', token)
      local own = owner == next_
      local given = owner .. ' ' .. token .. (own and ' 0 ' or ' 2 ') .. label
      -- guard: handover_claim
      call('SET', KEYS[2], given, 'PX', own and lease or CLAIM_MS)
      if own then return token end
      local sharded = string.find(channel, '}:spush:', 1, true)
      call(sharded and 'SPUBLISH' or 'PUBLISH', channel, owner .. ' ' .. token .. ' ' .. CLAIM_MS)
      if next_ == '' then return 1 end
      -- guard: handover_retry
      return (number <= NEAR and NEAR_MS or FAR_MS) .. ' ' .. CLAIM_MS .. ' ' .. given
    end
  end
end

-- The long way.
local run, replid, longest, quarantine, margin =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
local deadline, releaser, keep, next_ = ARGV[2], ARGV[3], ARGV[4] or '', ARGV[5] or ''
local next_lease, next_label, next_floor, next_channel = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

-- include common.lua
local now = clock()
local record = read(KEYS[2])
local owner, token, state, label = parse(record)
local mine = 0
-- guard: release_owner
if owner == releaser then mine = 1 end
local repeats = next_ ~= '' and record and holds(record, next_)
if readers(record) and place_among(record, releaser) then
  mine, record = 1, leave(record, releaser)
elseif repeats and state ~= '1'
  -- guard: next_version
  and not unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
then
  -- A repeat: the first try, or another client that came between, has handed the lock on. It gets its whole lease,
  -- as in acquire.lua.
  local left = math.max(redis.call('PTTL', KEYS[2]), next_lease + 0)
  if readers(record) then
    redis.call('PEXPIRE', KEYS[2], left)
  else
    hold_anew(owner, token, '0', label, left)
  end
  return {1, {'granted', text(token)}}
elseif mine == 1 and keep ~= '' then
  hold_anew(owner, token, '1', label, keep)
elseif mine == 1 then
  redis.call('DEL', KEYS[2])
  record = false
end
if next_ == '' and (record or redis.call('EXISTS', KEYS[3]) == 0) then return mine end
-- guard: release_epoch
local mark, refusal = gate(now)
if not mark then return next_ ~= '' and {mine, refusal} or mine end
local placed = ARGV[10] or false
-- guard: next_tombstone
if next_ ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local sound = true
  -- guard: next_late
  if late(now) then sound = false end
  -- guard: next_floor
  if tonumber(next_floor) > now + longest then sound = false end
  -- guard: next_lease
  if next_lease * 1000 > tonumber(longest) then sound = false end
  if sound and not placed then
    sound, placed = try(heard, now, next_, table.concat({next_lease, next_floor, next_channel, next_label}, ' '))
  end
  -- Then it asks for itself.
  if not sound then next_ = '' end
end
local passed = not record or readers(record)
if passed then
  local done, given = try(pass_on, now, mark, next_, record)
  if done then record = given end
end
if next_ == '' then return mine end
if passed and record and holds(record, next_) then
  local _, minted = parse(record)
  return mine == 1 and text(minted) or {mine, {'granted', text(minted)}}
end
return {mine, busy(next_, placed, math.max(mark, token or 0), record)}
