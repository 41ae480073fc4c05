-- The version of all records and scripts of a store, as in settings/version.rs.
local VERSION = '1'
