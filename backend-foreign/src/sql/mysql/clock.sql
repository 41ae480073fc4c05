-- The server's clock.
SELECT {now}
