-- Simple releases and attempts of many tasks of one client: those that fit the short ways of release.lua and
-- acquire.lua. Their rules are repeated here. For any other the answer is -1, and the client sends it in its own script.
-- KEYS: 1 epoch record, then the locks of the releases, their queues, the locks of the attempts, their
--       queues, their owners' tombstones
-- ARGV: as in epoch_arguments.lua, and 5 how many releases   6 label of all attempts, then the owner of each release,
--       then owner and lease ms of each attempt
-- Answers: for each release 1 if the lock was held, otherwise 0; for each attempt a token.

-- include epoch_arguments.lua
-- include version.lua
local releases, label = ARGV[5] + 0, ARGV[6]
local answers, call = {}, redis.call
if releases > 0 then
  local crowded = call('EXISTS', unpack(KEYS, releases + 2, 2 * releases + 1)) > 0
  local records, freed = call('MGET', unpack(KEYS, 2, releases + 1)), {}
  for at = 1, releases do
    -- guard: batch_release_queue
    if crowded and call('EXISTS', KEYS[releases + 1 + at]) == 1 then
      answers[at] = -1
    -- guard: batch_release_owner
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
local e = call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark', 'version')
local open = e[1]
  -- guard: batch_run
  and e[1] == run
  -- guard: batch_replid
  and e[2] == replid
  -- guard: batch_settings
  and e[3] == longest and e[4] == quarantine
  -- guard: batch_version
  and e[7] == VERSION
  -- guard: batch_failover
  and (margin == '' or string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true))
local token = 0
if open then
  local time = call('TIME')
  local now = time[1] * 1000000 + time[2]
  token = now
  -- guard: batch_watermark
  token = math.max(now, (tonumber(e[6] or 0) or 9007199254740991) + 1)
  open = token + attempts <= 9007199254740991
    -- guard: batch_quarantine
    and e[5] + 0 <= now
    -- guard: batch_late
    and now <= deadline + 0
end
-- Written before the first grant, for as many tokens as there are attempts. So if a later step fails, no token is used
-- twice.
-- guard: batch_mark
if open then call('HSET', KEYS[1], 'mark', string.format('%.0f', token + attempts - 1)) end
-- guard: batch_free
local free = call('EXISTS', unpack(KEYS, first, #KEYS)) == 0
local most = longest + 0
for at = 0, attempts - 1 do
  local lock, lease = KEYS[first + at], ARGV[argument + 2 * at + 1]
  local granted = open
    -- guard: batch_lease
    and lease * 1000 <= most
    and (free or call('EXISTS', lock, KEYS[first + attempts + at], KEYS[first + 2 * attempts + at]) == 0)
  if granted then
    local record = ARGV[argument + 2 * at] .. ' ' .. string.format('%.0f', token) .. ' 0 ' .. label
    -- Two attempts of the batch may be for the same lock.
    -- guard: batch_once
    granted = call('SET', lock, record, 'PX', lease, 'NX')
  end
  local answer = -1
  if granted then answer, token = token, token + 1 end
  answers[releases + 1 + at] = answer
end
return answers
