-- One attempt.
-- KEYS: as in shared.lua
-- epoch args: kind owner lease label floor last_token_life
--       lease: in ms. last_token_life: 'ends' if the last token may expire when the clock is past
--       it, or 'stays'
-- Answer: {'granted', token}; {'busy', ...} of `state_of`; {'rest', remaining ms, token};
--         {'exhausted'}, or a refusal of `admit`.
lease, floor = tonumber(lease), tonumber(floor)
local now = clock()
local noted, token, state = parse(read(KEYS[2]))
-- guard: repeat_owner
local own = noted == owner and is_ours(KEYS[6], owner)
-- guard: repeat_kept
own = own and state == '0'
if own then
  local e = redis.call('HMGET', KEYS[1], 'longest', 'version')
  local refusal = unknown(e[2], e[1])
  -- guard: repeat_version
  if refusal then return refusal end
  -- guard: repeat_lease
  own = lease * 1000 <= (e[1] or longest) + 0
end
-- guard: repeat
if own then
  -- The repeat may be late, so it never shortens the lease.
  -- guard: repeat_shorter
  if redis.call('PTTL', KEYS[6]) < lease then
    for _, at in ipairs({6, 2, 3}) do redis.call('PEXPIRE', KEYS[at], lease) end
  end
  return {'granted', text(token)}
end
-- guard: admit
local mark = admit(now, lease, floor)
if type(mark) == 'table' then return mark end
local there = state_of(KEYS[6], KEYS[2], KEYS[4], mark)
table.insert(there, 1, 'busy')
-- guard: held
if there[2] ~= '' then
  if there[2] == '?' then
    -- A foreign client got the lock, so the run ends.
    redis.call('DEL', KEYS[3])
    -- The time when a foreign holder was last seen, for migrations. If memory is short, Redis
    -- refuses this, but the attempt goes on.
    -- guard: notes_theirs
    redis.pcall('HSET', KEYS[1], 'theirs', text(now))
  end
  return there
end
-- guard: tombstone
if redis.call('EXISTS', KEYS[5]) == 1 then return there end
local run = read(KEYS[3]) or ''
-- guard: rest
if run == 'rest' then return {'rest', redis.call('PTTL', KEYS[3]), there[5]} end
-- guard: last_token
mark = math.max(mark, last_token(KEYS[4]))
local minted = mint(now, mark, floor)
if not minted then return {'exhausted'} end
if kind == 'hash' then
  redis.call('HSET', KEYS[6], owner .. ':1', 1)
  -- guard: hash_ends
  redis.call('PEXPIRE', KEYS[6], lease)
else
  redis.call('SET', KEYS[6], owner, 'PX', lease)
end
redis.call('SET', KEYS[2], owner .. ' ' .. text(minted) .. ' 0 ' .. label, 'PX', lease)
local grants, since = string.match(run, '^(%d+) (%d+)$')
redis.call('SET', KEYS[3], text((grants or 0) + 1) .. ' ' .. (since or text(now)), 'PX', lease)
-- guard: keeps_token
redis.call('SET', KEYS[4], text(minted))
if last_token_life == 'ends' then
  redis.call('PEXPIRE', KEYS[4], math.ceil(math.max(0, minted - now) / 1000) + TOMB_MS)
end
return {'granted', text(minted)}
