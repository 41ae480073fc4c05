-- Gives a held lock to a new owner, in one step. The former owner then holds nothing.
-- KEYS: as in epoch.lua; the tombstone is that of the new owner
-- epoch args: former token owner lease label
-- Answer: {'granted', token}; {'gone'} if `former` does not hold the lock alone with this token, or
--       the new owner was abandoned; or the refusals of check_epoch.lua and check_request.lua.
-- It checks the epoch as a grant does: a server that has lost data may have lost the call before,
-- which gave the lock to another owner.

-- include epoch
-- include records
-- include holders
lease = tonumber(lease)
local now = clock()
-- guard: reown_epoch | S1 | a_hand_over_after_a_restart | local mark = 0
local mark = admit(now, lease, 0)
if type(mark) == 'table' then return mark end
local record = read(KEYS[2])
local holder, held, state = parse(record)
-- guard: reown_token | S4 | only_the_named_grant_is_handed_over |
--   if not held then return {'gone'} end
if held ~= tonumber(token) then return {'gone'} end
-- guard: reown_kept | S5 | what_is_gone_is_not_handed_over
if state == '1' then return {'gone'} end
-- guard: reown_repeat | S6 | a_lock_is_handed_over_once | if false then
if holder == owner then
  prolong(record, owner, now, lease)
  return {'granted', token}
end
-- guard: reown_owner | S4 | a_lock_is_handed_over_once
if holder ~= former then return {'gone'} end
-- guard: reown_tombstone | S6 | an_abandoned_owner_is_handed_nothing
if redis.call('EXISTS', KEYS[5]) == 1 then return {'gone'} end
hold_anew(owner, token, '0', label, lease)
return {'granted', token}
