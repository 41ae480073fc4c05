-- A client of leasehold has used the prefix PREFIX in database DATABASE since this server's start.
return 1
