-- Makes sure that an owner holds nothing and never will.
-- KEYS: as in shared.lua
-- epoch args: kind owner wake channel message
-- Answer: 1 if it held the lock, otherwise 0.
local noted, _, state = parse(read(KEYS[2]))
-- guard: abandon_owner | S4 | abandoning_frees_what_was_taken | local mine = true
local mine = is_ours(KEYS[6], owner)
-- A lock in its minimum hold stays.
-- guard: abandon_kept | S4 | a_clean_up_of_what_is_kept
mine = mine and not (noted == owner and state == '1')
if mine then free(wake, channel, message) end
-- guard: abandon_tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
redis.call('SET', KEYS[5], '1', 'PX', TOMB_MS)
return mine and 1 or 0
