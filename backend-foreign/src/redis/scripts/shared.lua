-- What the scripts about a shared lock have in common, behind common.lua of backend-redis.
--
-- KEYS: 1 epoch record   2 note   3 run   4 last token   5 tombstone of the owner
--       6 the lock, as the other library keeps it   7 the list of its signals, where it has one
-- ARGV: as in epoch_arguments.lua of backend-redis, and 5 kind
--
-- The lock is there or not, as the other library says: 'text' is a string with the owner, 'hash' a hash whose field
-- is 'owner:1'. The note says what the lock has no place for: "owner token state label", with state 0 held or 1 released
-- and kept. It counts only while the lock is that owner's. Both end at the same time.
--
-- The run counts the grants of our clients in a row, "grants since": after many of them a release sets 'rest' in its
-- place, and until that ends the lock is left to the clients of the other library.
local kind = ARGV[5]
-- How many grants in a row, and for how long, in microseconds, before a rest; and how soon after a release the next
-- grant is one of the same row.
local RUN_GRANTS, RUN_US, RUN_GAP_MS = 10, 1000000, 100
-- How long a signal is kept for a waiter that does not wait yet, as python-redis-lock does.
local SIGNAL_MS = 1000
local NO_TOKEN_LEFT = 9007199254740991

-- The answer about a key; nil where the key is of another type, which is nobody's of ours.
local function ask(...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer) end
  return nil
end

local function is_ours(lock, owner)
  if kind == 'hash' then return ask('HEXISTS', lock, owner .. ':1') == 1 end
  return ask('GET', lock) == owner
end

-- The value by which the other library knows its holder.
local function theirs(lock)
  local value
  if kind == 'hash' then value = (ask('HKEYS', lock) or {})[1] else value = ask('GET', lock) end
  return string.sub(value or '', 1, 100)
end

-- The last token, which clients of the other library may count on from. What is no number leaves no token.
local function last_token(key)
  local last = redis.pcall('GET', key)
  if not last then return 0 end
  return math.min(type(last) == 'string' and tonumber(last) or NO_TOKEN_LEFT, NO_TOKEN_LEFT)
end

-- {owner ('?' for a client of the other library, '' for none), label or value, remaining ms (-1 for ever), token, state}
local function state_of(lock, note, last, mark)
  if redis.call('EXISTS', lock) == 0 then return {'', '', 0, text(math.max(mark, last_token(last))), '0'} end
  local left = redis.call('PTTL', lock)
  local owner, token, state, label = parse(read(note))
  if owner and is_ours(lock, owner) then return {owner, label, left, text(token), state} end
  return {'?', theirs(lock), left, text(math.max(mark, last_token(last))), '0'}
end

-- Frees the lock, and wakes the waiters of the other library as it does itself.
local function free(wake, channel, message)
  redis.call('DEL', KEYS[6], KEYS[2])
  -- guard: wake_publish
  if wake == 'publish' or wake == 'spring' then redis.call('PUBLISH', channel, message) end
  -- Before 7 Spring Integration has one channel for all locks of a registry, to which each message says its lock.
  -- guard: wake_registry
  if wake == 'spring' then redis.call('PUBLISH', string.sub(channel, 1, -2 - #message), message) end
  if wake == 'list' then
    redis.call('DEL', KEYS[7])
    -- guard: wake_list
    redis.call('LPUSH', KEYS[7], message)
    redis.call('PEXPIRE', KEYS[7], SIGNAL_MS)
  end
end
