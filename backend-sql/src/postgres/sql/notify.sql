-- Sends an empty message to the channel $1.
SELECT pg_catalog.pg_notify($1, '')
