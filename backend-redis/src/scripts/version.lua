-- The version of all records and scripts of a store: that of settings/version.rs.
local VERSION = '1'
