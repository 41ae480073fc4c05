(l.readers IS NOT NULL AND NOT {over})
