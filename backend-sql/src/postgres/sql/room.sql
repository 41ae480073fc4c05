-- How many sessions there may be, and how many there are.
SELECT {sessions}
