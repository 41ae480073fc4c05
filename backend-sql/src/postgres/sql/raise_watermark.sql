-- Second step of a sweep: whatever forgets a token raises the watermark to it first, for the sweep
-- after this one.
UPDATE {marker} SET
    watermark = greatest(watermark, (
        SELECT coalesce(max(token), 0) FROM {locks} WHERE owner IS NULL OR expires <= {now}
    )),
    raised = {now}
WHERE raised + interval '1 minute' <= {now}
