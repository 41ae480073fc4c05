-- The first step of setting the tokens back: nothing is granted for a whole quarantine, even if the quarantine is off.
-- When it ends, the clock is past all tokens that led it by no more than they may. distrust_rows.sql and reset_tokens.sql follow.
-- The last step is this statement again, since a sweep may have read the old tokens.
-- $1 the longest that the longest lease ever was, as far as this client knows.
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised)
SELECT 1, {here}, '{marker}'::regclass, {now} + greatest(quarantine, $1), 0, 'epoch' FROM {settings}
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, watermark = 0, raised = 'epoch',
    grants_from = greatest(m.grants_from, excluded.grants_from)
