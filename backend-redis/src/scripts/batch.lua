-- Simple releases and attempts of many tasks of one client: of locks for which nobody waits, and
-- without floors. It repeats two rules of release.lua and acquire.lua for many locks. For any other
-- the answer is -1, and the client sends it in its own script.
-- KEYS: 1 epoch record, then the locks of the releases, their queues, the locks of the attempts,
-- their
--       queues, their owners' tombstones
-- epoch args: releases label owners...
--       how many releases; the label of all attempts; the owner of each release, then owner and
--       lease ms of each attempt
-- Answers: for each release 1 if the lock was held, otherwise 0; for each attempt a token.

releases = releases + 0
local answers, call = {}, redis.call
if releases > 0 then
  local crowded = call('EXISTS', unpack(KEYS, releases + 2, 2 * releases + 1)) > 0
  local records, freed = call('MGET', unpack(KEYS, 2, releases + 1)), {}
  for at = 1, releases do
    -- guard: batch_release_queue | L2 | short_ways_do_what_long_ways_do | if false then
    if crowded and call('EXISTS', KEYS[releases + 1 + at]) == 1 then
      answers[at] = -1
    -- guard: batch_release_owner | S4 | short_ways_do_what_long_ways_do | elseif records[at] then
    elseif records[at] and string.sub(records[at], 1, 32) == ARGV[owners + at - 1] then
      answers[at], freed[#freed + 1] = 1, KEYS[1 + at]
    else
      answers[at] = 0
    end
  end
  if freed[1] then call('DEL', unpack(freed)) end
end

local first, argument = 2 * releases + 2, owners + releases
local attempts = (#KEYS - first + 1) / 3
if attempts == 0 then return answers end
-- include text
-- include gate
-- include unfit
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- guard: batch_admit | S1 | short_ways_do_what_long_ways_do | local mark = 0
local mark = gate(now)
mark = type(mark) == 'number' and mark
local token = math.max(now, (mark or 0) + 1)
local open = mark and token + attempts <= 9007199254740991
-- Written before the first grant, for as many tokens as there are attempts. So if a later step
-- fails, no token is used twice.
-- guard: batch_mark | S2 | short_ways_do_what_long_ways_do
-- guard: batch_marks | S2 | short_ways_do_what_long_ways_do |
--   if open then call('HSET', KEYS[1], 'mark', text(token)) end
if open then call('HSET', KEYS[1], 'mark', text(token + attempts - 1)) end
-- guard: batch_free | S1 | short_ways_do_what_long_ways_do | local free = true
local free = call('EXISTS', unpack(KEYS, first, #KEYS)) == 0
local last_lease, fits
for at = 0, attempts - 1 do
  local lock, owner, lease = KEYS[first + at], ARGV[argument + 2 * at], ARGV[argument + 2 * at + 1]
  if lease ~= last_lease then last_lease, fits = lease, not unfit(now, lease, 0) end
  local granted = open
    -- guard: batch_lease | S1 | short_ways_do_what_long_ways_do
    and fits
    and (free or call('EXISTS', lock, KEYS[first + attempts + at], KEYS[first + 2 * attempts + at]) == 0)
  -- Two attempts of the batch may be for the same lock.
  -- guard: batch_once | S1 | short_ways_do_what_long_ways_do |
  --   granted = granted and call('SET', lock, owner .. ' ' .. text(token) .. ' 0 ' .. label, 'PX',
  --   lease)
  granted = granted and call('SET', lock, owner .. ' ' .. text(token) .. ' 0 ' .. label, 'PX', lease, 'NX')
  local answer = -1
  if granted then answer, token = token, token + 1 end
  answers[releases + 1 + at] = answer
end
return answers
