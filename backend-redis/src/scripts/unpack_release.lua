-- unpack_release
-- ARGV: 1 and 2 as in unpack_acquire.lua   3 owner   and, unless that is all:
--       4 ms to keep it, or ''   5 owner of the next request, or ''   6 its lease ms   7 label   8 floor
--       9 channel
local run, replid, longest, quarantine, margin =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
local ARGV = #ARGV == 3 and {run, replid, longest, quarantine, ARGV[3], ARGV[2], margin}
  or {run, replid, longest, quarantine, ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9],
    ARGV[2], margin}
