-- part: check_request
-- The check of a request, for the middle of a script or of a function. Before it stand `now`,
-- `lease` and `floor`. It returns the refusal, or goes on. The caller has checked the epoch, so
-- `longest` is that of the store.

-- The caller of a late attempt has given up.
-- guard: late
if now > deadline + 0 then return {'late'} end
local most = tonumber(longest)
if tonumber(floor) > now + most then
  -- include text
  -- guard: floor
  do return {'floor', text(now + most)} end
end
-- guard: lease
if lease * 1000 > most then return {'lease'} end
