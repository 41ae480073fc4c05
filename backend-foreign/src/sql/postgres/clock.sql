-- The server's clock.
SELECT {micros}
