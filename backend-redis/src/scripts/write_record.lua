-- Writes the record of a name, if a writer holds its lock.
-- KEYS: 1 epoch record   2 lock   3 record
-- args: writer token number keep flushed value
--       number: of the write, among those of the grant. keep: for how many ms. flushed: 'yes' if
--       the server flushes each write before it answers, and has no replica; otherwise ''
-- Answer: 1 if it was written, now or by an earlier request; 0 if `writer` does not hold the lock;
--       or that of `unknown`.
-- A record is "token number written", on the next line the value, and has Redis's own expiry.

-- include unknown
-- include text
-- include clock
-- include read
local version, longest, marked = unpack(redis.call('HMGET', KEYS[1], 'version', 'longest', 'flushed'))
local refusal = unknown(version, longest)
if refusal then return refusal end
local old_token, old_number = string.match(read(KEYS[3]) or '', '^(%d+) (%d+) %d+\n')
-- guard: record_number | S7 | a_late_write
if old_token == token and tonumber(old_number) >= tonumber(number) then return 1 end
local record = read(KEYS[2])
-- guard: record_owner | S7 | a_write_of_a_former_holder
if not record or string.sub(record, 1, 32) ~= writer then return 0 end
local behind = string.find(record, ' ', 34, true) or #record
local state = string.sub(record, behind + 1, behind + 1)
-- guard: record_kept | S7 | a_write_after_a_release_that_keeps
if state ~= '0' and state ~= '2' then return 0 end
-- guard: record_flushed | S7 | a_restart
if flushed ~= (marked or '') then redis.call('HSET', KEYS[1], 'flushed', flushed) end
redis.call('SET', KEYS[3], token .. ' ' .. number .. ' ' .. text(clock()) .. '\n' .. value, 'PX', keep)
return 1
