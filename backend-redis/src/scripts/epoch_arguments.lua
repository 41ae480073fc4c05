-- The locals that common.lua needs, for scripts that get each of them in an argument of its own.
-- ARGV: 1 run id   2 replication id   3 longest lease   4 quarantine   from 5 on each script's own
--       last but one deadline   last margin
local run, replid, longest, quarantine = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local deadline, margin = ARGV[#ARGV - 1], ARGV[#ARGV]
