-- Second step of a sweep: whatever forgets a token raises the watermark to it first. Only other sweeps and `init` wait for
-- this row.
UPDATE {settings} SET
    -- guard: sweep-raises
    watermark = GREATEST(watermark, ?1)
WHERE id = 1
