-- One node's vote on an attempt. It follows the functions of backend-redis, and for a writer also
-- acquire_fast.lua.
--
-- KEYS: 1 epoch record   2 lock   3 queue (sorted set of owners by rank)
--       4 entries (hash: owner to "until mode channel"; `turn` to "owner until")   5 tombstone
-- epoch args: owner lease label floor proposed bound attempt late_after watermark estimated channel rank mode
--       lease: ms. proposed: a number. bound: of clocks, µs. attempt: its number, which rises for
--       one owner. late_after: the clock after which it is late. watermark: which one. estimated:
--       the client's estimate of this clock. channel: '' for no entry. rank: of the entry. mode:
--       'r' for a reader, '' for a writer
-- Answers: {word, clock, ...}; words: ours, busy, late, clock, quarantine, floor, lease, exhausted.
--
-- If the record cannot be read, 'busy' gives the owner '?'. A lock is "owner number state attempt
-- label", with Redis's own expiry. State 0: held. State 1: released and kept for a last while. A
-- tombstone holds the number of the last attempt that must take nothing.
--
-- A lock that readers share is "READERS number 0 count label", with a line "owner number attempt
-- end" for each of them. The first line has the highest of their numbers, how many they are, and
-- the label of the reader that came last. The end of a reader's lease is as in records.lua of
-- backend-redis. The expiry is that of the latest lease. No pattern runs over all lines, since
-- there may be a thousand.
-- include epoch
-- include tunables
-- include records
-- include is_reader
local reader = mode == 'r'
lease, floor, bound = tonumber(lease), tonumber(floor), tonumber(bound)
attempt, estimated = tonumber(attempt), tonumber(estimated)
-- As in free.lua.
local TURN_US = 100000
local other = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
-- guard: acquire_version | S1 | a_late_request_in_another_version
if other then return other end
local now = clock()
local stamp = text(now)
-- The highest clock at which this node got a request.
local seen = tonumber(redis.call('HGET', KEYS[1], 'clock') or 0)
-- A late request or a clock that is ahead; then a clock that is behind.
-- guard: late_request | S6 | a_late_request | if false then
if now > tonumber(late_after) then
  -- guard: late_notes_clock | S1 | a_clock_that_came_back(late)
  if now > seen and redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'clock', stamp) end
  return {'late', stamp}
end
-- guard: clock_behind | S2 | a_clock_behind
if now < estimated - bound then return {'clock', stamp} end
-- A waiter keeps its entry, and is served, also if memory is short: the expiry is set first, see
-- epoch.lua of backend-redis.
if redis.call('HGET', KEYS[4], owner) then redis.call('PEXPIRE', KEYS[4], TOMB_MS) end
-- A deadline written by a wrong clock could end a quarantine too early.
local epoch = redis.call('HMGET', KEYS[1], 'run', 'replid', 'from', 'span')
-- guard: clock_came_back | S1 | a_clock_that_came_back(granting) | local ahead = false
local ahead = seen > now + bound
if epoch[1] ~= run or epoch[2] ~= replid or tonumber(epoch[3] or 0) > now or ahead then
  -- guard: clock_off | S1 | a_record_to_write_ahead_of_the_others
  if math.abs(now - estimated) > bound then return {'clock', stamp} end
end
if ahead then
  -- The clock was ahead and came back. Records of this node may have expired early, which counts as
  -- a loss of data.
  redis.call('HSET', KEYS[1], 'clock', stamp)
  if quarantine == 'on' then
    -- The longest lease may have been longer before, and that may not be waited out yet.
    -- guard: waits_out | S1 | a_clock_that_came_back_in_a_long_wait |
    --   local span = tonumber(longest)
    local span = math.max(tonumber(longest), tonumber(epoch[4] or 0))
    redis.call('HSET', KEYS[1], 'from', text(now + span), 'span', text(span),
      'why', 'the clock was ahead and came back')
  end
-- guard: notes_clock | S1 | a_clock_that_came_back(refusing) | elseif false then
elseif now > seen and epoch[1] then
  redis.call('HSET', KEYS[1], 'clock', stamp)
end
-- guard: gate_epoch | S1 | an_epoch_with_another(run) | local mark = 1
-- guard: gate_quarantine | S1 | an_epoch_with_another(from) | local mark = 1
local mark = gate(now)
if type(mark) == 'table' then
  if mark[1] == 'quarantine' then table.insert(mark, 2, stamp) end
  return mark
end
-- If the watermark is not a number, or is above all tokens, no token is left to grant.
mark = math.min(tonumber(redis.call('HGET', KEYS[1], watermark) or 0) or 9007199254740991, 9007199254740991)
-- After a loss of data the clocks may be behind the old ones by the bound. The margin leaves room
-- for that.
local highest = now + tonumber(longest) - 2 * bound
-- guard: floor | S2 | a_floor_far_ahead_of_the_clock_is_refused
if floor > highest then return {'floor', stamp, text(highest)} end
-- guard: longest_lease | S1 | a_lease_above_the_longest_is_refused_by_the_store
if lease * 1000 > tonumber(longest) then return {'lease', stamp} end
local record = read(KEYS[2])
local holder, number, state, last, old_label = string.match(record or '', '^(%x+) (%d+) ([01]) (%d+) ([^\n]*)')
-- A record that cannot be read belongs to no owner, and holds the lock until it expires.
if holder and (#holder ~= 32 or tonumber(number) > 9007199254740991) then holder, number = nil, nil end
-- How many readers share it, and the position of the asker's line if it is one of them.
local count = holder == READERS and tonumber(last) or 0
local from, own, to = holder == READERS and string.find(record, '\n' .. owner .. ' ', 1, true), nil, nil
local own_end = lease_end(now, lease)
if from then
  local before
  own, last, before, to = string.match(record, '^(%d+) (%d+) (%d+)()', from + 34)
  -- guard: repeat_end | S3 | a_reader_whose_lease_is_prolonged(repeat)
  if before > own_end then own_end = before end
end
local function line(of, by) return '\n' .. owner .. ' ' .. of .. ' ' .. by .. ' ' .. own_end end
-- Those of these lines whose leases are not over, and how many they are.
local function living_of(lines)
  local first, kept, at = lease_end(now, 0), {}, 1
  while at do
    local next_ = string.find(lines, '\n', at + 1, true)
    local until_ = string.sub(lines, (next_ or #lines + 1) - 13, (next_ or 0) - 1)
    -- guard: dead_reader | S4 | room_of_a_dead_reader | if false then
    if until_ >= first then
      kept[#kept + 1] = string.sub(lines, at, (next_ or 0) - 1)
    end
    at = next_
  end
  return table.concat(kept), #kept
end
local function busy()
  local left = record and redis.call('PTTL', KEYS[2]) or 0
  if left == -1 then
    -- No record of this store stays for ever. Whatever this one is, no lease is longer than this.
    left = math.ceil(longest / 1000)
    redis.call('PEXPIRE', KEYS[2], left)
  end
  local rank = redis.call('ZRANK', KEYS[3], owner)
  return {'busy', stamp, holder or record and '?' or '', old_label or '', left, number or text(mark), rank or -1}
end
local gone = redis.call('GET', KEYS[5])
-- guard: tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
if gone and tonumber(gone) >= attempt then return busy() end
-- guard: repeat_once | S4 | a_repeat_by_a_reader_is_the_same_grant |
--   if holder == owner and state == '0' then
-- guard: repeat_kept | S5 | a_repeat_of_what_is_kept | if holder == owner then
-- guard: repeat_number | S6 | a_repeat_by_the_owner_is_the_same_grant |
--   if holder == owner then record = false end if false then
if own or holder == owner and state == '0' then
  -- A repeat sets the lease anew. It may be a late request, so it never shortens the lease.
  -- guard: repeat_lease | S3 | a_repeat_by_the_owner_is_the_same_grant | local left = lease
  local left = math.max(lease, redis.call('PTTL', KEYS[2]))
  -- guard: last_attempt | S6 | a_late_repeat_that_is_taken_back | last = attempt
  last = math.max(attempt, tonumber(last))
  record = own and string.sub(record, 1, from - 1) .. line(own, text(last)) .. string.sub(record, to)
    or table.concat({owner, number, '0', text(last), old_label}, ' ')
  redis.call('SET', KEYS[2], record, 'PX', left)
  return {'ours', stamp, own or number, 1}
end
local turn, ends = string.match(redis.call('HGET', KEYS[4], 'turn') or '', '^(%x+) (%d+)$')
ends = tonumber(ends or 0)
-- For a moment after a release the node serves only the head of the queue, or the readers at its
-- head.
-- guard: readers_turn | L2 | two_readers_that_are_called
if reader and turn == READERS then turn = owner end
-- guard: turn | L3 | a_turn_far_ahead | local others = turn and turn ~= owner and ends > now
local others = turn and turn ~= owner and ends > now and ends <= now + TURN_US
-- Whether a live writer stands before the asker in the queue.
local function writer_first()
  for _, ahead in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    -- guard: own_entry | L2 | a_reader_before_a_writer
    if ahead == owner then return false end
    local entry = redis.call('HGET', KEYS[4], ahead) or ''
    local until_ = tonumber(string.match(entry, '^(%d+) ') or 0)
    -- guard: dead_writer | L3 | a_reader_behind_a_dead_writer(old) |
    --   if until_ <= now + LIFE_US and not is_reader(entry) then return true end
    -- guard: writer_of_a_clock_ahead | L3 | a_reader_behind_a_dead_writer(ahead) |
    --   if until_ > now and not is_reader(entry) then return true end
    -- guard: reader_first | L2 | two_readers_that_are_called |
    --   if until_ > now and until_ <= now + LIFE_US then return true end
    if until_ > now and until_ <= now + LIFE_US and not is_reader(entry) then return true end
  end
  return false
end
-- guard: writers_wait | S1 | readers_share_and_exclude_writers |
--   local shut = record and holder ~= READERS
local shut = record
local first_line = count > 0 and string.find(record, '\n', 1, true)
local lines = first_line and string.sub(record, first_line) or ''
if reader then
  -- guard: room_of_the_dead | L1 | room_of_a_dead_reader
  if count >= MOST_READERS then lines, count = living_of(lines) end
  -- guard: readers_wait | S1 | readers_share_and_exclude_writers | shut = false
  -- guard: readers_have_a_limit | S1 | one_reader_above_the_most | shut = record and count == 0
  shut = record and not (first_line and count < MOST_READERS)
  -- guard: writer_first | L3 | a_reader_past_a_writer
  -- guard: writer_first_when_free | L3 | a_reader_past_a_writer |
  --   shut = shut or record and writer_first()
  shut = shut or writer_first()
end
-- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token | if others then
-- guard: held_for_the_head | L3 | an_attempt_past_the_head | if record then
if shut or others then
  if channel ~= '' then
    redis.call('ZADD', KEYS[3], 'NX', rank, owner)
    redis.call('HSET', KEYS[4], owner, text(now + LIFE_US) .. (reader and ' r ' or ' w ') .. channel)
    redis.call('PEXPIRE', KEYS[3], TOMB_MS)
    redis.call('PEXPIRE', KEYS[4], TOMB_MS)
    -- Until then, and a second more, batch.lua checks for entries and tombstones.
    -- guard: entry_makes_a_crowd | L3 | a_batch_with_one_waiting | local crowd = 0
    local crowd = now + (TOMB_MS + 1000) * 1000
    if crowd > tonumber(redis.call('HGET', KEYS[1], 'crowd') or 0) then
      redis.call('HSET', KEYS[1], 'crowd', text(crowd))
    end
  end
  return busy()
end
-- The stored token: the same rule as `stored` in token.rs, acquire_fast.lua and batch.lua.
-- guard: near_the_clock | S2 | a_proposal_far_ahead | number = tonumber(proposed)
number = math.min(math.max(tonumber(proposed), now - bound), now + bound)
-- guard: above_the_mark | S2 | a_number_above_the_watermark | number = math.max(number, floor + 1)
-- guard: above_the_floor | S2 | a_number_above_the_floor | number = math.max(number, mark + 1)
number = math.max(number, mark + 1, floor + 1)
if number > 9007199254740991 then return {'exhausted', stamp} end
-- `top` is the highest of all watermarks. A number above it need not be compared with its own
-- watermark.
local top = math.max(number, tonumber(redis.call('HGET', KEYS[1], 'top') or 0))
-- guard: notes_top | S2 | a_writer_after_a_reader | redis.call('HSET', KEYS[1], 'top', text(top))
-- guard: notes_mark | S2 | a_batch_after_a_number_far_ahead(acquired) |
--   redis.call('HSET', KEYS[1], watermark, text(number))
redis.call('HSET', KEYS[1], watermark, text(number), 'top', text(top))
if reader then
  -- guard: join_lease | S1 | a_reader_with_a_short_lease
  if record then lease = math.max(lease, redis.call('PTTL', KEYS[2])) end
  record = table.concat({READERS, text(number), '0', text(count + 1), label}, ' ')
    .. lines .. line(text(number), text(attempt))
else
  record = table.concat({owner, text(number), '0', text(attempt), label}, ' ')
end
redis.call('SET', KEYS[2], record, 'PX', lease)
redis.call('ZREM', KEYS[3], owner)
redis.call('HDEL', KEYS[4], owner, 'turn')
return {'ours', stamp, text(number), 0}
