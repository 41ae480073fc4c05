-- Second step: whatever forgets a token raises the watermark to it first. Attempts that make rows read
-- the watermark for sharing: this statement waits for those that have read the old one.
UPDATE {settings} SET
    -- guard: sweep-raises
    watermark = GREATEST(watermark, ?1)
WHERE id = 1
