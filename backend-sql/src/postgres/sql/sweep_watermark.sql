-- Second step of a sweep: whatever forgets a token raises the watermark to it first, for the sweep
-- after this one. Not each time, since each begins the minute anew; but also where the clock was set back, which
-- would otherwise end all sweeping until it is again where it was.
UPDATE {marker} SET
    watermark = greatest(watermark, (
        SELECT coalesce(pg_catalog.max(token), 0) FROM {locks} WHERE owner IS NULL OR expires_2 <= {now}
    )),
    raised = {now}
WHERE raised + interval '1 minute' <= {now} OR raised > {now}
