-- Second step: forgets free rows. One that was granted since the first step has a larger token, and
-- stays. ?1 now, ?2 epoch.
DELETE FROM {locks}
WHERE (owner IS NULL OR (epoch = ?2 AND expires <= ?1))
    AND token <= (SELECT watermark FROM {settings})
