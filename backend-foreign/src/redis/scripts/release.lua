-- Releases a grant, or keeps the lock for a minimum hold.
-- KEYS: as in shared.lua
-- epoch args: kind owner keep wake channel message rest
--       keep: in ms, or ''. rest: its length in ms, or 0 for none
-- Answer: 1 if it was held, otherwise 0.
rest = tonumber(rest)
local noted, token, state, label = parse(read(KEYS[2]))
-- guard: release_owner | S4 | only_the_owner_releases
if not is_ours(KEYS[6], owner) then return 0 end
-- A lock in its minimum hold stays until its time ends, or until it is freed by force.
-- guard: release_kept | S4 | a_release_of_what_is_kept
if noted == owner and state == '1' then return 0 end
if keep ~= '' then
  local record = owner .. ' ' .. text(token or last_token(KEYS[4])) .. ' 1 ' .. (label or '')
  redis.call('PEXPIRE', KEYS[6], keep)
  redis.call('SET', KEYS[2], record, 'PX', keep)
  return 1
end
free(wake, channel, message)
local grants, since = string.match(read(KEYS[3]) or '', '^(%d+) (%d+)$')
-- guard: begins_rest | L2 | many_grants_in_a_row | if false then
if grants and rest > 0 and grants + 0 >= RUN_GRANTS and clock() - since >= RUN_US then
  redis.call('SET', KEYS[3], 'rest', 'PX', rest)
elseif grants then
  redis.call('PEXPIRE', KEYS[3], RUN_GAP_MS)
end
return 1
