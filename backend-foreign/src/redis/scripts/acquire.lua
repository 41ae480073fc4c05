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
-- guard: repeat_owner | S4 | a_repeat_after_another_took_it | local own = noted == owner
local own = noted == owner and is_ours(KEYS[6], owner)
-- guard: repeat_kept | S5 | a_repeat_of_what_is_kept
own = own and state == '0'
if own then
  local e = redis.call('HMGET', KEYS[1], 'longest', 'version')
  local refusal = unknown(e[2], e[1])
  -- guard: repeat_version | S1 | a_repeat_in_another_version
  if refusal then return refusal end
  -- guard: repeat_lease | S1 | a_repeat_above_the_longest_lease | own = true
  own = lease * 1000 <= (e[1] or longest) + 0
end
-- guard: repeat | S6 | a_repeat_by_the_owner_is_the_same_grant | if false then
if own then
  -- The repeat may be late, so it never shortens the lease.
  -- guard: repeat_shorter | S3 | a_repeat_by_the_owner_is_the_same_grant | if true then
  if redis.call('PTTL', KEYS[6]) < lease then
    for _, at in ipairs({6, 2, 3}) do redis.call('PEXPIRE', KEYS[at], lease) end
  end
  return {'granted', text(token)}
end
-- guard: admit_quarantine | S1 | an_attempt_in_the_quarantine | local mark = 1
-- guard: admit_late | S6 | a_late_request | local mark = 1
-- guard: admit_floor | S2 | a_floor_far_ahead_of_the_clock_is_refused | local mark = 1
-- guard: admit_lease | S1 | a_lease_above_the_longest_is_refused_by_the_store | local mark = 1
local mark = admit(now, lease, floor)
if type(mark) == 'table' then return mark end
local there = state_of(KEYS[6], KEYS[2], KEYS[4], mark)
table.insert(there, 1, 'busy')
-- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token | if false then
-- guard: held_by_others | S1 | a_foreign_holder | if false then
if there[2] ~= '' then
  if there[2] == '?' then
    -- A foreign client got the lock, so the run ends.
    redis.call('DEL', KEYS[3])
    -- The time when a foreign holder was last seen, for migrations. If memory is short, Redis
    -- refuses this, but the attempt goes on.
    -- guard: notes_theirs | operation | a_foreign_client_in_a_listing
    redis.pcall('HSET', KEYS[1], 'theirs', text(now))
  end
  return there
end
-- guard: tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
if redis.call('EXISTS', KEYS[5]) == 1 then return there end
local run = read(KEYS[3]) or ''
-- guard: rest | L2 | many_grants_in_a_row
if run == 'rest' then return {'rest', redis.call('PTTL', KEYS[3]), there[5]} end
-- guard: last_token | S2 | a_token_of_the_other_side
mark = math.max(mark, last_token(KEYS[4]))
local minted = mint(now, mark, floor)
if not minted then return {'exhausted'} end
if kind == 'hash' then
  redis.call('HSET', KEYS[6], owner .. ':1', 1)
  -- guard: hash_ends | L1 | a_hash_that_ends
  redis.call('PEXPIRE', KEYS[6], lease)
else
  redis.call('SET', KEYS[6], owner, 'PX', lease)
end
redis.call('SET', KEYS[2], owner .. ' ' .. text(minted) .. ' 0 ' .. label, 'PX', lease)
local grants, since = string.match(run, '^(%d+) (%d+)$')
redis.call('SET', KEYS[3], text((grants or 0) + 1) .. ' ' .. (since or text(now)), 'PX', lease)
-- guard: keeps_token | S2 | the_token_for_the_other_side
redis.call('SET', KEYS[4], text(minted))
if last_token_life == 'ends' then
  redis.call('PEXPIRE', KEYS[4], math.ceil(math.max(0, minted - now) / 1000) + TOMB_MS)
end
return {'granted', text(minted)}
