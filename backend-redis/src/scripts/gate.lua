-- The watermark, if grants are allowed; otherwise the refusal, which is a table.
local function gate(now)
  -- include check_epoch.lua
  return mark
end
