-- Sets the store's longest lease to $1. The quarantine never gets shorter, since leases of the old length may still run.
UPDATE {settings} SET longest_lease = $1, quarantine = greatest(quarantine, $1)
RETURNING {durably}
