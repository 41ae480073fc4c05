-- How many sessions the server allows, and how many exist.
SELECT {sessions}
