-- Second step of a sweep: whatever forgets a token raises the watermark to it first, for the sweep
-- after this one.
UPDATE {settings} SET
    watermark = greatest(watermark, (
        SELECT coalesce(max(token), 0) FROM {locks} WHERE owner IS NULL OR expires <= {now}
    )),
    raised = {now}
WHERE raised + 60000000 <= {now}
