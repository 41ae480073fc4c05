-- The refusal of a request; nil if it may be granted.
local function unfit(now, lease, floor)
  -- include check_request.lua
end
