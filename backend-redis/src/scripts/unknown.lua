-- include version.lua
-- The answer where the store's records have another version, by two fields of the epoch record; nil where nothing was
-- agreed on yet. Records from before versions had none.
local function unknown(version, longest)
  version = version or longest and '0'
  if version and version ~= VERSION then return {'version', version} end
end
