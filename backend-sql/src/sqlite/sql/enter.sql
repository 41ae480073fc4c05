-- The place of ?2 for ?1: at the end of the queue, or where it is already; it is heard of. An abandoned owner gets none,
-- nor one that holds the lock: it would be served after its release.
-- ?3 label, ?4 floor, ?5 bell or null, ?6 now, ?7 epoch, ?8 wall clock in µs, ?9 whether it is a reader's.
INSERT INTO {queue} (name, position, owner, label, floor, bell, heard, epoch, wall, shared)
SELECT ?1, coalesce((SELECT max(position) FROM {queue} WHERE name = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE true
    -- guard: enter-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)
    -- guard: enter-holds
    AND NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = ?1 AND (l.owner = ?2 OR instr(l.readers, ?2)) AND NOT {over ?6 ?7})
ON CONFLICT (name, owner) DO UPDATE SET
    bell = excluded.bell, heard = excluded.heard, epoch = excluded.epoch, wall = excluded.wall
