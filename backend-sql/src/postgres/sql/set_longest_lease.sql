-- Sets the store's longest lease to $1. A quarantine never gets shorter: leases of the old length
-- may be running.
UPDATE {settings} SET longest_lease = $1, quarantine = greatest(quarantine, $1)
RETURNING {durably}
