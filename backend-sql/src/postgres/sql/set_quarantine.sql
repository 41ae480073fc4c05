-- Whether a loss is followed by a quarantine: $1.
UPDATE {settings} SET quarantined = $1
RETURNING {durably}
