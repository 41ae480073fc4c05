-- Simple attempts and releases of many tasks of one client: attempts that fit acquire_fast.lua, and
-- releases of locks for which nobody waits here. For any other the answer is -1, and the client
-- sends it again in its own script.
--
-- The arguments are few, since each costs the server as much as the work for it. While the node has
-- no entries and no tombstones (see `crowd` in acquire.lua), the script does not check for them.
--
-- KEYS: 1 epoch record, then the locks of the releases, then those of the attempts
-- epoch args: bound late_after estimated attempt proposed label releases lease list...
--       as in acquire.lua, for all attempts: tokens of different names may be equal. lease: '' if
--       they differ. The list: the owner of each release; then owner and watermark of each attempt,
--       and its lease if they differ
-- Answer: {'batch', clock, {for each release 1 if it was held, otherwise 0; the number of each
--       attempt}}. If all releases found their locks held, and all attempts have the same number:
--       {'batch', clock, that number}
-- include version
local call, answers, time = redis.call, {}, redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp, argument = string.format('%.0f', now), list
releases = releases + 0
local e = call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'clock', 'top', 'crowd',
  'version')
-- guard: batch_crowd | L2 | short_ways_do_what_long_ways_do | local crowded = false
local crowded = (e[8] or 0) + 0 > now
-- The other keys of a name and of an owner, by the layout of `Keys` in backend-redis.
local base = string.sub(KEYS[1], 1, -6)
local function has(word, of) return call('EXISTS', base .. word .. of) == 1 end
local function name_of(lock) return string.sub(lock, #base + 6) end
if crowded then
  -- One check for all of them: mostly the crowd is at other names.
  local beside, owner = {}, argument + releases
  for at = 2, #KEYS do beside[#beside + 1] = base .. 'queue:' .. name_of(KEYS[at]) end
  for at = releases + 2, #KEYS do
    beside[#beside + 1] = base .. 'entries:' .. name_of(KEYS[at])
    beside[#beside + 1] = base .. 'gone:' .. ARGV[owner]
    owner = owner + (lease == '' and 3 or 2)
  end
  crowded = call('EXISTS', unpack(beside)) > 0
end

local freed = {}
if releases > 0 then
  local records = call('MGET', unpack(KEYS, 2, releases + 1))
  for at = 1, releases do
    local record, owner, answer = records[at], ARGV[argument + at - 1], 0
    if crowded and has('queue:', name_of(KEYS[1 + at])) then
      answer = -1
    -- guard: batch_release_owner | S4 | short_ways_do_what_long_ways_do | elseif record then
    elseif record and string.sub(record, 1, 32) == owner then
      -- A number has 16 digits until the year 2286.
      local before, state, behind = string.byte(record, 50, 52)
      if before == 32 and state == 48 and behind == 32 or string.match(record, '^%x+ %d+ 0 ') then
        answer, freed[#freed + 1] = 1, KEYS[1 + at]
      end
    end
    answers[at] = answer
  end
  if freed[1] then call('DEL', unpack(freed)) end
end

local first = releases + 2
local attempts = #KEYS - first + 1
if attempts == 0 then return {'batch', stamp, #freed == releases and proposed or answers} end
argument = argument + releases
local most = longest + 0
bound = bound + 0
local step = lease == '' and 3 or 2
local open = e[3] == longest and e[4] == quarantine
  -- guard: batch_epoch | S1 | short_ways_do_what_long_ways_do
  and e[1] == run and e[2] == replid
  -- guard: batch_version | S1 | short_ways_do_what_long_ways_do
  and e[9] == VERSION
  -- guard: batch_quarantine | S1 | short_ways_do_what_long_ways_do
  and e[5] + 0 <= now
  -- guard: batch_clock | S1 | short_ways_do_what_long_ways_do
  and (e[6] or 0) + 0 <= now
  -- guard: batch_behind | S2 | short_ways_do_what_long_ways_do
  and estimated - bound <= now
  -- guard: batch_late | S6 | short_ways_do_what_long_ways_do
  and now <= late_after + 0
  -- guard: batch_lease | S1 | short_ways_do_what_long_ways_do
  and (lease == '' or lease * 1000 <= most)
if not open then
  for at = 1, attempts do answers[releases + at] = -1 end
  return {'batch', stamp, answers}
end

-- The stored token: see acquire.lua. All attempts share one number and one text. Only a number
-- raised above its watermark has a text of its own.
local text, marks, top = proposed, nil, (e[7] or 0) + 0
proposed = proposed + 0
-- guard: batch_proposal | S2 | short_ways_do_what_long_ways_do | if false then
if proposed < now - bound or proposed > now + bound then
  proposed = math.min(math.max(proposed, now - bound), now + bound)
  text = string.format('%.0f', proposed)
end
if proposed <= top then
  local fields = {}
  for at = 0, attempts - 1 do fields[1 + at] = ARGV[argument + step * at + 1] end
  marks = call('HMGET', KEYS[1], unpack(fields))
end
local numbers, texts, set = {}, {}, {'clock', stamp, 'top', ''}
for at = 1, attempts do
  local own = argument + step * (at - 1)
  local number, shown = proposed, text
  if marks and marks[at] and marks[at] + 0 >= proposed then
    number = marks[at] + 1
    shown = string.format('%.0f', number)
  end
  if number > 9007199254740991 or lease == '' and ARGV[own + 2] * 1000 > most
    or crowded and (has('queue:', name_of(KEYS[first + at - 1]))
      or has('entries:', name_of(KEYS[first + at - 1])) or has('gone:', ARGV[own])) then
    answers[releases + at] = -1
  else
    numbers[at], texts[at], top = number, shown, math.max(top, number)
    set[#set + 1] = ARGV[own + 1]
    set[#set + 1] = shown
  end
end
-- Written before the first lock is taken. So if a later step fails, no number is used twice.
if set[5] then
  set[4] = top == proposed and text or string.format('%.0f', top)
  -- Refused if memory is short. Then each attempt is sent in its own script, and the releases
  -- stand.
  if type(redis.pcall('HSET', KEYS[1], unpack(set))) ~= 'number' then
    for at = 1, attempts do answers[releases + at] = -1 end
    return {'batch', stamp, answers}
  end
end
local plain, rest = #freed == releases, ' 0 ' .. attempt .. ' ' .. label
local tail = ' ' .. text .. rest
for at = 1, attempts do
  local own, taken = argument + step * (at - 1), nil
  if numbers[at] then
    local record = ARGV[own] .. (texts[at] == text and tail or ' ' .. texts[at] .. rest)
    -- The lock may be held, and two attempts of the batch may be for the same lock.
    -- guard: batch_held | S1 | short_ways_do_what_long_ways_do |
    --   taken = call('SET', KEYS[first + at - 1], record, 'PX', step == 3 and ARGV[own + 2] or
    --   lease)
    taken = call('SET', KEYS[first + at - 1], record, 'PX', step == 3 and ARGV[own + 2] or lease, 'NX')
    answers[releases + at] = taken and numbers[at] or -1
  end
  plain = plain and taken and numbers[at] == proposed
end
return {'batch', stamp, plain and text or answers}
