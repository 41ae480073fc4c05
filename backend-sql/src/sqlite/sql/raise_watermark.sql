-- First step of a sweep: whatever forgets a token raises the watermark to it first. ?1 now, ?2 epoch.
UPDATE {settings} SET watermark = max(watermark, (
    SELECT coalesce(max(token), 0) FROM {locks}
    WHERE owner IS NULL OR (epoch = ?2 AND expires <= ?1)
))
