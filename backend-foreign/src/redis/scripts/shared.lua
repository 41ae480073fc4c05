-- The common part of the scripts. It follows epoch.lua and holders.lua of backend-redis.
--
-- KEYS: 1 epoch record   2 note   3 run   4 last token   5 tombstone of the owner
--       6 the lock, as the other library keeps it   7 the list of its signals, where it has one
-- Each script's first own argument is `kind`, the layout's type of record.
--
-- The lock is held if its key exists, as for the other library: 'text' is a string with the owner,
-- 'hash' a hash whose field is 'owner:1'. The note has what the lock has no room for: "owner token
-- state label", with state 0 for held or 1 for released and kept (a minimum hold). It counts only
-- while that owner has the lock. Both keys expire at the same time.
--
-- The run counts consecutive grants to leasehold clients, as "grants since". After many of them, a
-- release replaces it by 'rest'. Until that expires, leasehold clients leave the lock to foreign
-- clients.
-- include records
-- include epoch
-- include tunables
-- A rest begins after this many consecutive grants, over at least this many microseconds. A grant
-- belongs to the same run if it comes within RUN_GAP_MS after the last release.
local RUN_GRANTS, RUN_US, RUN_GAP_MS = 10, 1000000, 100
-- How long a signal is kept for a waiter that does not wait yet, the same as in python-redis-lock.
local SIGNAL_MS = 1000
local NO_TOKEN_LEFT = 9007199254740991

-- The answer of a read; nil if the key has another type, and so does not belong to leasehold.
local function read_typed(...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer) end
  return nil
end

local function is_ours(lock, owner)
  if kind == 'hash' then return read_typed('HEXISTS', lock, owner .. ':1') == 1 end
  return read_typed('GET', lock) == owner
end

-- The value by which the other library identifies its holder.
local function foreign_value(lock)
  local value
  if kind == 'hash' then value = (read_typed('HKEYS', lock) or {})[1] else value = read_typed('GET', lock) end
  return string.sub(value or '', 1, 100)
end

-- The last token. Foreign clients may continue counting from it. If it is not a number, no token is
-- left.
local function last_token(key)
  local last = redis.pcall('GET', key)
  if not last then return 0 end
  return math.min(type(last) == 'string' and tonumber(last) or NO_TOKEN_LEFT, NO_TOKEN_LEFT)
end

-- {owner ('?' for a foreign holder, '' for none), label or value, remaining ms (-1 if it never
-- expires), token, state}
local function state_of(lock, note, last, mark)
  if redis.call('EXISTS', lock) == 0 then return {'', '', 0, text(math.max(mark, last_token(last))), '0'} end
  local left = redis.call('PTTL', lock)
  local owner, token, state, label = parse(read(note))
  if owner and is_ours(lock, owner) then return {owner, label, left, text(token), state} end
  return {'?', foreign_value(lock), left, text(math.max(mark, last_token(last))), '0'}
end

-- Frees the lock, and wakes foreign waiters in the same way as the other library.
local function free(wake, channel, message)
  redis.call('DEL', KEYS[6], KEYS[2])
  -- guard: wake_publish | L2 | a_waiter_by_message
  if wake == 'publish' or wake == 'spring' then redis.call('PUBLISH', channel, message) end
  -- Before version 7, Spring Integration has one channel for all locks of a registry. The message
  -- names the lock.
  -- guard: wake_registry | L2 | a_waiter_of_a_registry
  if wake == 'spring' then redis.call('PUBLISH', string.sub(channel, 1, -2 - #message), message) end
  if wake == 'list' then
    redis.call('DEL', KEYS[7])
    -- guard: wake_list | L2 | a_waiter_by_signal
    redis.call('LPUSH', KEYS[7], message)
    redis.call('PEXPIRE', KEYS[7], SIGNAL_MS)
  end
end
