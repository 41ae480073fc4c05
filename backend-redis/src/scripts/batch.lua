-- Plain releases and attempts of many tasks of one client: those that have the way of release_fast.lua
-- and acquire_fast.lua. Any other is answered -1, and goes its own way in a script of its own.
-- KEYS: 1 epoch record, then the locks of the releases, their queues, the locks of the attempts, their
--       queues, their owners' tombstones
-- ARGV: 1 to 4 and the last two as in common.lua   5 how many releases   6 label of all attempts, then the
--       owner of each release, then owner and lease ms of each attempt
-- Answers: 1 or 0 for each release, whether it was held; a token for each attempt.
local answers, call = {}, redis.call
local releases = ARGV[5] + 0
if releases > 0 then
  local crowded = call('EXISTS', unpack(KEYS, releases + 2, 2 * releases + 1)) > 0
  local records, freed = call('MGET', unpack(KEYS, 2, releases + 1)), {}
  for at = 1, releases do
    if crowded and call('EXISTS', KEYS[releases + 1 + at]) == 1 then
      answers[at] = -1
    elseif records[at] and string.sub(records[at], 1, 32) == ARGV[6 + at] then
      answers[at], freed[#freed + 1] = 1, KEYS[1 + at]
    else
      answers[at] = 0
    end
  end
  if freed[1] then call('DEL', unpack(freed)) end
end

local first, argument = 2 * releases + 2, 7 + releases
local attempts = (#KEYS - first + 1) / 3
if attempts == 0 then return answers end
local e = call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark')
local open = e[1] == ARGV[1] and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]
  and (ARGV[#ARGV] == ''
    or string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true))
local token, longest = 0, ARGV[3] + 0
if open then
  local time = call('TIME')
  local now = time[1] * 1000000 + time[2]
  token = math.max(now, (tonumber(e[6] or 0) or 9007199254740991) + 1)
  open = e[5] + 0 <= now and now <= ARGV[#ARGV - 1] + 0 and token + attempts <= 9007199254740991
end
-- Before the first grant, as if there were one for each: should a later step fail, no token comes twice.
if open then call('HSET', KEYS[1], 'mark', string.format('%.0f', token + attempts - 1)) end
local free = call('EXISTS', unpack(KEYS, first, #KEYS)) == 0
for at = 0, attempts - 1 do
  local lock, lease = KEYS[first + at], ARGV[argument + 2 * at + 1]
  local answer = -1
  if open and lease * 1000 <= longest
    and (free or call('EXISTS', lock, KEYS[first + attempts + at], KEYS[first + 2 * attempts + at]) == 0)
    -- Two may ask for the same lock.
    and call('SET', lock, ARGV[argument + 2 * at] .. ' ' .. string.format('%.0f', token) .. ' 0 '
      .. ARGV[6], 'PX', lease, 'NX') then
    answer, token = token, token + 1
  end
  answers[releases + 1 + at] = answer
end
return answers
