-- Plain attempts and releases of many tasks of one client: attempts that have the way of
-- acquire_fast.lua, and releases of locks for which nobody waits here. Any other is answered -1, and
-- goes its own way in a script of its own.
--
-- KEYS: 1 epoch record, then the locks of the releases, their queues, the locks of the attempts, their
--       queues, their places, their owners' tombstones
-- ARGV: 1 to 4 and the last two as for `gate`
--       5 clock bound, µs   6 the clock past which attempts are late   7 what the client takes this
--       clock to be   8 the number of all attempts   9 the first proposed number; each next one is one
--       more   10 label of all attempts   11 how many releases, then the owner of each; then owner, lease
--       ms and watermark of each attempt
-- Answer: {'batch', clock, {1 or 0 for each release, whether it was held; the number of each attempt}}
local call, answers, time = redis.call, {}, redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp, releases = string.format('%.0f', now), ARGV[11] + 0
if releases > 0 then
  local crowded = call('EXISTS', unpack(KEYS, releases + 2, 2 * releases + 1)) > 0
  local records, freed = call('MGET', unpack(KEYS, 2, releases + 1)), {}
  for at = 1, releases do
    local record, owner = records[at], ARGV[11 + at]
    if crowded and call('EXISTS', KEYS[releases + 1 + at]) == 1 then
      answers[at] = -1
    elseif record and string.sub(record, 1, 32) == owner and string.match(record, '^%x+ %d+ 0 ') then
      answers[at], freed[#freed + 1] = 1, KEYS[1 + at]
    else
      answers[at] = 0
    end
  end
  if freed[1] then call('DEL', unpack(freed)) end
end

local first, argument = 2 * releases + 2, 12 + releases
local attempts = (#KEYS - first + 1) / 4
if attempts == 0 then return {'batch', stamp, answers} end
local fields = {'run', 'replid', 'longest', 'quarantine', 'from', 'clock'}
for at = 0, attempts - 1 do fields[7 + at] = ARGV[argument + 3 * at + 2] end
local e, bound, longest = call('HMGET', KEYS[1], unpack(fields)), ARGV[5] + 0, ARGV[3] + 0
local open = e[1] == ARGV[1] and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]
  and e[5] + 0 <= now and (e[6] or 0) + 0 <= now and ARGV[7] - bound <= now and now <= ARGV[6] + 0
local free = open and call('EXISTS', unpack(KEYS, first, #KEYS)) == 0
local marks, set = {}, {'clock', stamp}
for at = 0, attempts - 1 do
  local lock, field = first + at, fields[7 + at]
  local answer = -1
  if open and ARGV[argument + 3 * at + 1] * 1000 <= longest
    and (free or call('EXISTS', KEYS[lock], KEYS[lock + attempts], KEYS[lock + 2 * attempts],
      KEYS[lock + 3 * attempts]) == 0) then
    local number = math.min(math.max(ARGV[9] + at, now - bound), now + bound)
    number = math.max(number, (marks[field] or e[7 + at] or 0) + 1)
    if number <= 9007199254740991 then
      answer, marks[field] = number, number
      set[#set + 1] = field
      set[#set + 1] = string.format('%.0f', number)
    end
  end
  answers[releases + 1 + at] = answer
end
-- Remembered before the first is taken: should a later step fail, no number comes twice.
if set[3] then call('HSET', KEYS[1], unpack(set)) end
for at = 0, attempts - 1 do
  local number, own = answers[releases + 1 + at], argument + 3 * at
  if number > 0 then
    local record = ARGV[own] .. string.format(' %.0f 0 ', number) .. ARGV[8] .. ' ' .. ARGV[10]
    -- Two may ask for the same lock.
    if not call('SET', KEYS[first + at], record, 'PX', ARGV[own + 1], 'NX') then
      answers[releases + 1 + at] = -1
    end
  end
end
return {'batch', stamp, answers}
