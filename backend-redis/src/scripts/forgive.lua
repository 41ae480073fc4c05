-- part: forgive
-- What follows a release may fail, with the error `result`: for want of memory, or because a script
-- has emptied a key while its slot is moving, so that a cluster takes the key for one that has
-- moved. The release stands then. Entries that were passed over learn it from their next heartbeat.
-- Any other failure is the script's.
local message = type(result) == 'table' and result.err or tostring(result)
if not (string.find(message, 'OOM', 1, true) or string.find(message, 'non local key', 1, true)) then
  error(result)
end
