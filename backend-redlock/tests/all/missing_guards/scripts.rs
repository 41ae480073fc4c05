//! The guards of each script, on one node. Guards of the short ways and of batches are tried in `short_ways.rs`, which
//! compares those with the long ways that are tried here.

use conformance_tests::{
    kit::Change::{LeaveOut, Replace},
    variants,
};

use super::{
    node::{Node, Way},
    releases::*,
    votes::*,
};

variants! {
    pub(super) VARIANTS Node;
    "S1: an attempt checks the epoch" Replace("gate", "local mark, refusal = 1") => another_run(Way::Long);
    "S1: an attempt refuses records of another version" LeaveOut("acquire_version") => another_version;
    "S1: no record of another version is renewed" LeaveOut("renew_version") => a_renewal_in_another_version;
    "S1: an attempt waits for the quarantine" Replace("gate", "local mark, refusal = 1") => a_quarantine(Way::Long);
    "S6: no late request is granted" Replace("late_request", "if false then") => a_late_request(Way::Long);
    "S2: nothing is granted while the clock is behind" LeaveOut("clock_behind") => a_clock_behind(Way::Long);
    "S1: no quarantine begins with a clock that is off" LeaveOut("clock_off") => a_record_to_write_ahead_of_the_others;
    "S1: a clock that was ahead and came back begins a quarantine"
        Replace("clock_came_back", "local ahead = false") => a_clock_that_came_back(Seen::Granting);
    "S1: a clock that came back cuts no wait short"
        Replace("waits_out", "local span = tonumber(ARGV[3])") => a_clock_that_came_back_in_a_long_wait;
    "S1: an attempt notes the clock" Replace("notes_clock", "elseif false then") => a_clock_that_came_back(Seen::Refusing);
    "S1: a late attempt notes the clock" LeaveOut("late_notes_clock") => a_clock_that_came_back(Seen::Late);
    "S1: a renewal notes a clock ahead" LeaveOut("renew_notes_clock") => a_clock_that_came_back(Seen::Renewing);
    "S1: no lease is above the longest" LeaveOut("longest_lease") => a_lease_above_the_longest(Way::Long);
    "S2: no floor is far ahead" LeaveOut("floor") => a_floor_far_ahead(Way::Long);
    "S1: a held lock is not given" Replace("held", "if others then") => a_held_lock(Way::Long);
    "S2: a number is above the watermark"
        Replace("above_the_marks", "number = math.max(number, floor + 1)") => a_number_above_the_watermark(Way::Long);
    "S2: a number is above the floor"
        Replace("above_the_marks", "number = math.max(number, mark + 1)") => a_number_above_the_floor(Way::Long);
    "S2: an attempt notes the highest number"
        Replace("notes_number", "redis.call('HSET', KEYS[1], ARGV[13], text(number))")
        => a_batch_after_a_number_far_ahead(Raised::ByAttempt);
    "S2: a number that is written notes the highest"
        LeaveOut("write_notes_top") => a_batch_after_a_number_far_ahead(Raised::Written);
    "S2: a proposal far ahead is lowered"
        Replace("near_the_clock", "number = tonumber(ARGV[9])") => a_proposal_far_ahead(Way::Long);
    "S5: a repeat does not hold a lock again that was released and is kept"
        Replace("repeat", "if holder == owner then") => a_repeat_after_a_release_that_keeps;
    "S3: a repeat shortens no lease" Replace("repeat_lease", "local left = lease") => a_repeat_with_a_shorter_lease;
    "S6: a repeat keeps its number" Replace("repeat", "if holder == owner then record = false end if false then") => a_repeat;
    "S6: a late attempt does not lower the number of the last attempt"
        Replace("last_attempt", "last = attempt") => a_late_repeat_that_is_taken_back;
    "S6: an abandoned owner gets nothing" LeaveOut("tombstone") => an_abandoned_owner(Way::Long);
    "S6: a clean-up leaves a tombstone" LeaveOut("leaves_tombstone") => an_abandoned_owner(Way::Short);
    "S6: a tombstone is not lowered" Replace("tombstone_rises", "if true then") => an_abandoned_owner(Way::Short);
    "S6: a tombstone makes a crowd" Replace("tombstone_makes_a_crowd", "local crowd = 0") => an_abandoned_owner(Way::Short);
    "L3: a lock is left to the waiter that was called" Replace("held", "if record then") => an_attempt_past_the_head;
    "L3: a turn ends, also by a clock that went back"
        Replace("turn", "local others = turn and turn ~= owner and ends > now") => a_turn_far_ahead;
    "L3: a queue entry makes a crowd" Replace("entry_makes_a_crowd", "local crowd = 0") => a_batch_with_one_waiting;
    "S2: no raise is far ahead" Replace("write_lead", "if false then") => a_raise_far_ahead;
    "S2: a number that is written raises the watermark" LeaveOut("write_notes_mark") => the_number_after_a_raise;
    "S2: a number is only raised" Replace("write_rises", "if true then") => a_lower_number;
    "S4: a number is written only to the asker's lock" LeaveOut("write_owner") => a_number_for_another;
    "S4: a number is not written to a lock that was released and is kept" LeaveOut("write_owner") => a_number_for_what_is_kept;
    "S4: only the owner releases" Replace("owner_frees", "mine = true") => a_release_by_another;
    "S4: a release leaves a lock that is kept" LeaveOut("kept") => a_release_after_one_that_keeps;
    "S6: a clean-up leaves a later attempt" LeaveOut("later_attempt") => a_late_clean_up;
    "S4: only the owner renews" Replace("renew_owner", "elseif false then") => a_renewal_by_another;
    "S5: a lock that is gone is not renewed" Replace("renew_gone", "local answer = 1") => a_renewal_of_what_is_gone;
    "S5: a lock that was released and is kept is not renewed"
        Replace("renew_kept", "elseif record then") => a_renewal_of_what_is_kept;
    "S1: a renewal keeps to the present longest lease" LeaveOut("renew_longest") => a_renewal_above_the_longest_lease;
    "S3: a renewal shortens no lease"
        Replace("renew_lengthens", "redis.call('PEXPIRE', KEYS[at], lease)") => a_renewal_with_a_shorter_lease;
    "L2: a release calls the next waiter" Replace("hand_over", "if false then") => a_release_with_one_waiting;
    "L3: dead entries are passed over" Replace("live_entry", "if ends <= now + LIFE_US then") => a_dead_entry;
    "L3: entries from before the clock went back are passed over"
        Replace("live_entry", "if ends > now then") => an_entry_of_a_clock_ahead;
    "L3: a waiter that was called and leaves passes the call on" LeaveOut("head_left") => a_head_that_leaves;
}
