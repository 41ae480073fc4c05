//! The guards of each script, on one node. Guards of the short ways and of batches are tried in
//! `short_ways.rs`, which compares those with the long ways that are tried here.

use servers::Change::{LeaveOut, Replace};
use verification::variants;

use super::{
    node::{Node, Way},
    releases::*,
    votes::*,
};

variants! {
    pub(super) VARIANTS |stage: Node|
    "S1: an attempt checks the epoch" Replace("gate", "local mark = 1") => another_run(stage, Way::Long);
    "S1: an attempt refuses records of another version" LeaveOut("acquire_version") => another_version(stage);
    "S1: no record of another version is renewed" LeaveOut("renew_version") => a_renewal_in_another_version(stage);
    "S1: an attempt waits for the quarantine" Replace("gate", "local mark = 1") => a_quarantine(stage, Way::Long);
    "S6: no late request is granted" Replace("late_request", "if false then") => a_late_request(stage, Way::Long);
    "S2: nothing is granted while the clock is behind" LeaveOut("clock_behind") => a_clock_behind(stage, Way::Long);
    "S1: no quarantine begins with a clock that is off" LeaveOut("clock_off") => a_record_to_write_ahead_of_the_others(stage);
    "S1: a clock that was ahead and came back begins a quarantine"
        Replace("clock_came_back", "local ahead = false") => a_clock_that_came_back(stage, Seen::Granting);
    "S1: a clock that came back cuts no wait short"
        Replace("waits_out", "local span = tonumber(longest)") => a_clock_that_came_back_in_a_long_wait(stage);
    "S1: an attempt notes the clock" Replace("notes_clock", "elseif false then") => a_clock_that_came_back(stage, Seen::Refusing);
    "S1: a late attempt notes the clock" LeaveOut("late_notes_clock") => a_clock_that_came_back(stage, Seen::Late);
    "S1: a renewal notes a clock ahead" LeaveOut("renew_notes_clock") => a_clock_that_came_back(stage, Seen::Renewing);
    "S1: no lease is above the longest" LeaveOut("longest_lease") => a_lease_above_the_longest(stage, Way::Long);
    "S2: no floor is far ahead" LeaveOut("floor") => a_floor_far_ahead(stage, Way::Long);
    "S1: a held lock is not given" Replace("held", "if others then") => a_held_lock(stage, Way::Long);
    "S2: a number is above the watermark"
        Replace("above_the_marks", "number = math.max(number, floor + 1)") => a_number_above_the_watermark(stage, Way::Long);
    "S2: a number is above the floor"
        Replace("above_the_marks", "number = math.max(number, mark + 1)") => a_number_above_the_floor(stage, Way::Long);
    "S2: an attempt notes the highest number"
        Replace("notes_number", "redis.call('HSET', KEYS[1], watermark, text(number))")
        => a_batch_after_a_number_far_ahead(stage, Raised::ByAttempt);
    "S2: a number that is written notes the highest"
        LeaveOut("write_notes_top") => a_batch_after_a_number_far_ahead(stage, Raised::Written);
    "S2: a proposal far ahead is lowered"
        Replace("near_the_clock", "number = tonumber(proposed)") => a_proposal_far_ahead(stage, Way::Long);
    "S5: a repeat does not hold a lock again that was released and is kept"
        Replace("repeat", "if holder == owner then") => a_repeat_after_a_release_that_keeps(stage);
    "S3: a repeat shortens no lease" Replace("repeat_lease", "local left = lease") => a_repeat_with_a_shorter_lease(stage);
    "S6: a repeat keeps its number" Replace("repeat", "if holder == owner then record = false end if false then") => a_repeat(stage);
    "S6: a late attempt does not lower the number of the last attempt"
        Replace("last_attempt", "last = attempt") => a_late_repeat_that_is_taken_back(stage);
    "S6: an abandoned owner gets nothing" LeaveOut("tombstone") => an_abandoned_owner(stage, Way::Long);
    "S6: a clean-up leaves a tombstone" LeaveOut("leaves_tombstone") => an_abandoned_owner(stage, Way::Short);
    "S6: a tombstone is not lowered" Replace("tombstone_rises", "if true then") => an_abandoned_owner(stage, Way::Short);
    "S6: a tombstone makes a crowd" Replace("tombstone_makes_a_crowd", "local crowd = 0") => an_abandoned_owner(stage, Way::Short);
    "L3: a lock is left to the waiter that was called" Replace("held", "if record then") => an_attempt_past_the_head(stage);
    "L3: a turn ends, also by a clock that went back"
        Replace("turn", "local others = turn and turn ~= owner and ends > now") => a_turn_far_ahead(stage);
    "L3: a queue entry makes a crowd" Replace("entry_makes_a_crowd", "local crowd = 0") => a_batch_with_one_waiting(stage);
    "S2: no raise is far ahead" Replace("write_lead", "if false then") => a_raise_far_ahead(stage);
    "S2: a number that is written raises the watermark" LeaveOut("write_notes_mark") => the_number_after_a_raise(stage);
    "S2: a number is only raised" Replace("write_rises", "if true then") => a_lower_number(stage);
    "S4: a number is written only to the asker's lock" LeaveOut("write_owner") => a_number_for_another(stage);
    "S4: a number is not written to a lock that was released and is kept" LeaveOut("write_owner") => a_number_for_what_is_kept(stage);
    "S4: only the owner releases" Replace("owner_frees", "mine = true") => a_release_by_another(stage);
    "S4: a release leaves a lock that is kept" LeaveOut("kept") => a_release_after_one_that_keeps(stage);
    "S6: a clean-up leaves a later attempt" LeaveOut("later_attempt") => a_late_clean_up(stage);
    "S4: only the owner renews" LeaveOut("renew_owner") => a_renewal_by_another(stage);
    "S5: a lock that is gone is not renewed" Replace("renew_gone", "if not record then return 1 end") => a_renewal_of_what_is_gone(stage);
    "S5: a lock that was released and is kept is not renewed" LeaveOut("renew_kept") => a_renewal_of_what_is_kept(stage);
    "S1: a renewal keeps to the present longest lease" LeaveOut("renew_longest") => a_renewal_above_the_longest_lease(stage);
    "S3: a renewal shortens no lease"
        Replace("renew_shorter", "local left = lease") => a_renewal_with_a_shorter_lease(stage);
    "L2: a release calls the next waiter" Replace("hand_over", "called = false") => a_release_with_one_waiting(stage);
    "L3: dead entries are passed over" Replace("live_entry", "if ends <= now + LIFE_US then") => a_dead_entry(stage);
    "L3: entries from before the clock went back are passed over"
        Replace("live_entry", "if ends > now then") => an_entry_of_a_clock_ahead(stage);
    "L3: a waiter that was called and leaves passes the call on" LeaveOut("head_left") => a_head_that_leaves(stage);
}
