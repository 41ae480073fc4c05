-- Prolongs many entries of one client, and reads the locks of some. It grants nothing, so it does
-- not check the epoch.
-- KEYS: 1 epoch record, then the entries, then their locks
-- epoch args: entry read owners...
--       the text of all entries behind their time: ' mode lease floor channel label'; how many of
--       the last locks to read; the owner of each entry
-- Answers, for each entry: 0 if it and its lock exist, and the lock was not to be read; 'retry-ms
--       remaining-ms owner token state label' of the holder if it was; -1 if the case is not
--       simple, since the entry is gone, or the lock is free, or was read and ends before the next
--       heartbeat. Then the client sends acquire.lua. Or the answer of `unknown`.

-- include unknown
-- include tunables
local call, answers = redis.call, {}
local epoch = call('HMGET', KEYS[1], 'version', 'longest')
local refusal = unknown(epoch[1], epoch[2])
-- guard: heartbeat_version | S1 | a_heartbeat_in_another_version
if refusal then return refusal end
-- A write that changes nothing and needs no memory. After it a full server accepts the other writes
-- too.
-- guard: heartbeat_memory | L3 | a_full_server
call('HDEL', KEYS[1], '')
local time = call('TIME')
local count = #ARGV - owners + 1
entry = time[1] + LIFE_US / 1000000 .. string.sub('00000' .. time[2], -6) .. entry
for at = 1, count do
  local entries, owner, answer = KEYS[1 + at], ARGV[owners + at - 1], 0
  -- guard: heartbeat_life | L3 | an_entry_older_than_its_life |
  --   if call('HEXISTS', entries, owner) == 0 then
  if call('HSET', entries, owner, entry) == 1 then
    -- The entry was served, abandoned or passed over, so it must not come back.
    -- guard: heartbeat_gone | L3 | an_entry_that_is_gone
    call('HDEL', entries, owner)
    answer = -1
  end
  answers[at] = answer
end
-- The holder may be another one than the client has read, with a shorter lease or an unclaimed
-- handoff.
-- guard: heartbeat_free | L1 | a_handoff_without_claim | local free = false
local free = call('EXISTS', unpack(KEYS, 2 + count)) < count
if free then
  for at = 1, count do
    if call('EXISTS', KEYS[1 + count + at]) == 0 then answers[at] = -1 end
  end
end
local unread = count - read
if unread == count then return answers end
local records = call('MGET', unpack(KEYS, 2 + count + unread))
for at = unread + 1, count do
  local record = records[at - unread]
  local left = record and answers[at] == 0 and call('PTTL', KEYS[1 + count + at]) or 0
  -- Only acquire.lua prolongs the key of the queue, which may expire 20 s before that of the
  -- entries.
  -- guard: heartbeat_queue_life | L3 | a_queue_that_is_about_to_end
  if left > 0 and call('PTTL', KEYS[1 + at]) < TOMB_MS * 2 / 3 then left = 0 end
  -- Without the line of readers, if it has one.
  answers[at] = left > FAR_MS and NEAR_MS .. ' ' .. left .. ' ' .. string.match(record, '^[^\n]*') or -1
end
return answers
