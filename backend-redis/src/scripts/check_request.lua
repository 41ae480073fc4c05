-- part: check_request
-- The check of a request, for the middle of a script or of a function. Before it stand `now`,
-- `lease` and `floor`. It returns the refusal, or goes on. The caller has checked the epoch, so
-- `longest` is that of the store.

-- The caller of a late attempt has given up.
-- guard: late | S6 | an_unfit_request(long late)
if now > deadline + 0 then return {'late'} end
local most = tonumber(longest)
if tonumber(floor) > now + most then
  -- include text
  -- guard: floor | S2 | a_floor_far_ahead_of_the_clock_is_refused
  do return {'floor', text(now + most)} end
end
-- guard: lease | S1 | a_lease_above_the_longest_is_refused_by_the_store
if lease * 1000 > most then return {'lease'} end
