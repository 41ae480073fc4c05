-- Releases a grant and hands the lock to the first live entry, in one step. It may carry the next request of the same
-- process.
-- KEYS: 1 epoch record   2 lock   3 queue   4 entries   and, with a next request, 5 tombstone of its owner
-- ARGV: 1 and 2 as in acquire.lua   3 owner   and, unless that is all,
--       4 ms to keep the record, or ''
--       5 owner of the next request, or ''   6 its lease ms   7 label   8 floor   9 channel, all as in acquire.lua
--       A reader sends all of them, since the short ways know only writers.
-- Answer: 1 if it was held, otherwise 0. With a next request: the token, if that was granted;
--       'retry-ms remaining-ms owner token state label' of the client that has the lock now, if the next request waits
--       behind it; otherwise {0 or 1, answer}, with an answer as in acquire.lua.

-- The short ways come first, as in acquire.lua. This one: nobody waits, and the client asks for nothing else.
local is_free = redis.call('EXISTS', KEYS[3]) == 0
local record = redis.pcall('GET', KEYS[2])
-- If the key has another type, the value is an error.
local mine = type(record) == 'string'
-- guard: short_release_owner
mine = mine and string.sub(record, 1, 32) == ARGV[3]
-- guard: short_release
if is_free and #ARGV == 3 and type(record) ~= 'table' then
  -- It grants nothing, so it does not check the epoch.
  if mine then redis.call('DEL', KEYS[2]) end
  return mine and 1 or 0
end

-- include take.lua
-- Nobody waits, and the release carries the process's next request: that gets the lock at once.
-- guard: short_next
if is_free and mine and ARGV[4] == '' and ARGV[5] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local token = not string.find(ARGV[8], '^0%d') and take(ARGV[5], ARGV[7], ARGV[6], ARGV[8])
  if token then return token end
end

-- include limits.lua
-- Others wait. The lock goes to the first live entry, and a next request goes to the end of the queue. The rules are those
-- of `hand_over` and `keep_entry` of common.lua. In case of doubt those take over; the queue is in order whenever that
-- happens.
-- guard: short_handover
if not is_free and mine and (ARGV[4] or '') == '' then
  local call, next_ = redis.call, ARGV[5] or ''
  local text, longest = open()
  local now = text and text + 0
  -- How many wait. The exact number matters only for a next request.
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
    local entry = table.concat({until_, ARGV[6], ARGV[8], ARGV[9], ARGV[7]}, ' ')
    -- Refused if memory is short. Then the long way frees the lock first.
    -- guard: handover_memory
    if redis.pcall('HSET', KEYS[4], next_, entry) == 1 then
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
    local entry = call('HGET', KEYS[4], owner)
    if entry and string.find(entry, '^%d+ %d+ 0%d') then
      -- A reader's entry: other readers may get in with it. The long way goes on, and learns here that the next request is
      -- queued.
      if call('LPUSH', KEYS[3], owner) == 1 then call('PEXPIRE', KEYS[3], TOMB_MS) end
      ARGV[10] = number
      break
    end
    -- guard: handover_entry_leaves
    call('HDEL', KEYS[4], owner)
    local until_, lease, floor, channel, label =
      string.match(entry or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if until_
      -- guard: handover_dead_entry
      and until_ + 0 > now
      -- guard: handover_future_entry
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
local record = living(KEYS[2], read(KEYS[2]), now)
local owner, token, state, label = parse(record)
local mine = 0
-- guard: release_owner
if owner == releaser then mine = 1 end
local repeats = next_ ~= '' and record and holds(record, next_)
if readers(record) and reader_position(record, releaser) then
  mine, record = 1, leave(record, releaser, now)
elseif repeats and state ~= '1'
  -- guard: next_version
  and not unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
then
  -- A repeat of this release: the first try, or another client that came between, has handed the lock on. The next request
  -- gets its whole lease, as in acquire.lua.
  if readers(record) then
    prolong(record, next_, now, next_lease + 0)
  else
    hold_anew(owner, token, '0', label, math.max(redis.call('PTTL', KEYS[2]), next_lease + 0))
  end
  return {1, {'granted', text(token)}}
elseif mine == 1 and keep ~= '' then
  hold_anew(owner, token, '1', label, keep)
elseif mine == 1 then
  redis.call('DEL', KEYS[2])
  record = false
end
-- Beside readers a waiting reader may get in: the one that left may have been one too many.
-- guard: beside_readers
local passed = not record or readers(record)
if next_ == '' and (not passed or redis.call('EXISTS', KEYS[3]) == 0) then return mine end
-- guard: release_epoch
local mark, refusal = gate(now)
if not mark then return next_ ~= '' and {mine, refusal} or mine end
local queued = ARGV[10] or false
-- guard: next_tombstone
if next_ ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local sound = true
  -- guard: next_late
  if late(now) then sound = false end
  -- guard: next_floor
  if tonumber(next_floor) > now + longest then sound = false end
  -- guard: next_lease
  if next_lease * 1000 > tonumber(longest) then sound = false end
  if sound and not queued then
    sound, queued = try(keep_entry, now, next_, table.concat({next_lease, next_floor, next_channel, next_label}, ' '))
  end
  -- Otherwise the client sends the next request on its own.
  if not sound then next_ = '' end
end
if passed then
  local done, given = try(hand_over, now, mark, next_, record)
  if done then record = given end
end
if next_ == '' then return mine end
if passed and record and holds(record, next_) then
  local _, minted = parse(record)
  return mine == 1 and text(minted) or {mine, {'granted', text(minted)}}
end
return {mine, busy(next_, queued, math.max(mark, token or 0), record)}
