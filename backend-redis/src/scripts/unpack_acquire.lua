-- unpack_acquire
-- What is sent is short, since each argument costs the server time; acquire.lua has it in full.
-- ARGV: 1 'run-id replication-id longest quarantine', and for a master that may be replaced ' margin'
--       2 the time from which on it is too late   3 owner   4 lease ms   5 label   and, unless they are
--       trivial, 6 floor   7 channel
local run, replid, longest, quarantine, margin =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
local ARGV = {run, replid, longest, quarantine, ARGV[3], ARGV[4], ARGV[5], ARGV[6] or '0', ARGV[7] or '',
  ARGV[2], margin}
