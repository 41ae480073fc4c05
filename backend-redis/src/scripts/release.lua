-- Releases a grant and hands the lock to the first live entry, in one step. It may carry the next
-- request of the same process.
-- KEYS: 1 epoch record   2 lock   3 queue   4 entries   and, with a next request, 5 tombstone of
--       its owner
-- epoch args: owner keep next_owner next_lease next_label next_floor next_channel next_mode
--       keep: ms to keep the record, or ''. next_owner: '' for none; the others as in acquire.lua
-- Answer: 1 if it was held, otherwise 0. With a next request: the answer to that, as in
--       acquire.lua, if it was held; otherwise 0 or {0, answer}.

local waited = redis.call('EXISTS', KEYS[3]) == 1
local record, mine, token = redis.pcall('GET', KEYS[2]), 0, nil
-- The common case: a writer releases.
local plain = type(record) == 'string' and keep == ''
-- guard: release_plain | S4 | short_ways_do_what_long_ways_do
plain = plain and string.sub(record, 1, 32) == owner
if plain and next_owner == '' and not waited then
  -- It grants nothing, so it does not check the epoch.
  redis.call('DEL', KEYS[2])
  return 1
end

local reader = next_mode == 'r'
-- The next request of the same process gets the lock at once.
-- guard: next_free | S6 | short_ways_do_what_long_ways_do |
--   if plain and not waited and not reader then
if plain and not waited and not reader and redis.call('EXISTS', KEYS[5]) == 0 then
  local function grant(owner, lease, label, floor)
    -- include grant
  end
  local done, result = pcall(grant, next_owner, next_lease, next_label, next_floor)
  if done and type(result) == 'string' then return result end
  redis.call('DEL', KEYS[2])
  if not done then
    -- include forgive
  end
end

local time, passed = redis.call('TIME'), true
local now = time[1] * 1000000 + time[2]
if plain then
  redis.call('DEL', KEYS[2])
  if next_owner ~= '' then token = tonumber(string.match(record, '^%x+ (%d+)')) end
  record, mine = false, 1
else
  -- include unknown
  -- include text
  -- include records
  -- include holders
  if type(record) == 'table' then record = read(KEYS[2]) end
  record = living(record, now)
  local holder, state, label
  holder, token, state, label = parse(record)
  -- guard: release_owner | S4 | only_the_owner_releases | mine = 1
  if holder == owner then mine = 1 end
  local repeats = next_owner ~= '' and record and holds(record, next_owner)
  if readers(record) and reader_position(record, owner) then
    mine, record = 1, leave(record, owner, now)
  elseif repeats and state ~= '1'
    -- guard: next_version | S1 | a_repeated_release_in_another_version
    and not unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
  then
    -- A repeat of this release: the first try, or another client that came between, has handed the
    -- lock on. The next request gets its whole lease, as in acquire.lua.
    if readers(record) then
      prolong(record, next_owner, now, next_lease + 0)
    else
      hold_anew(next_owner, text(token), '0', label, math.max(redis.call('PTTL', KEYS[2]), next_lease + 0))
    end
    return {'granted', text(token)}
  elseif mine == 1 and keep ~= '' then
    hold_anew(owner, text(token), '1', label, keep)
  elseif mine == 1 then
    redis.call('DEL', KEYS[2])
    record = false
  end
  -- Beside readers a waiting reader may get in: the one that left may have been one too many.
  -- guard: beside_readers | L2 | a_reader_behind_a_dead_writer | passed = not record
  passed = not record or readers(record)
end
if next_owner == '' and not (passed and waited) then return mine end
-- include gate
-- guard: release_epoch | S1 | a_handoff_after_a_restart(release) | local mark = 1
local mark = gate(now)
-- A refusal.
if type(mark) == 'table' then return next_owner == '' and mine or mine == 1 and mark or {0, mark} end
local queued = false
-- guard: next_tombstone | S6 | an_abandoned_owner_that_a_release_carries | if next_owner ~= '' then
if next_owner ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  -- include tunables
  -- include entries
  -- include unfit
  if next_floor == '' then next_floor = '0' end
  -- guard: next_late | S6 | an_unfit_request(next late) | local sound = true
  -- guard: next_lease | S1 | an_unfit_request(next lease) | local sound = true
  -- guard: next_floor | S2 | an_unfit_request(next floor) | local sound = true
  local sound = not unfit(now, next_lease, next_floor)
  if sound then
    local entry = entry_of(next_mode, next_lease, next_floor, next_channel, next_label)
    local done, result = pcall(keep_entry, now, next_owner, entry)
    sound, queued = done, done and result
    if not done then
      -- include forgive
    end
  end
  -- Otherwise the client sends the next request on its own.
  if not sound then next_owner = '' end
end
local given
if passed then
  -- include handoff
  local done, result, shown = pcall(hand_off, now, mark, next_owner, record)
  if done then
    record, given = result, shown
  else
    -- include forgive
  end
end
if next_owner == '' then return mine end
if given then return mine == 1 and given or {0, {'granted', given}} end
-- include tunables
-- include parse
-- include busy
local answer = busy(next_owner, queued, math.max(mark, token or 0), record)
return mine == 1 and answer or {0, answer}
