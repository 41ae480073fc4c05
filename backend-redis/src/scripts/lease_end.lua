-- The end of a lease of so many ms from `now`. Ends have 13 digits, so they compare as texts.
local function lease_end(now, ms) return string.format('%013.0f', math.floor(now / 1000) + ms) end
