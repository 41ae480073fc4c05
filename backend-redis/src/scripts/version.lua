-- The version of records and scripts.

-- part: version
-- The version of all records and scripts of a store, as in settings/version.rs.
local VERSION = '1'

-- part: unknown
-- include version
-- The answer for records of another version, from two fields of the epoch record; nil if no
-- settings exist yet. Records from before versions existed have no version field.
local function unknown(version, longest)
  version = version or longest and '0'
  if version and version ~= VERSION then return {'version', version} end
end
