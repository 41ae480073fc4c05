//! The guards of each script, on one node. Guards of the short ways and of batches are tried in `short_ways.rs`, which
//! compares those with the long ways that are tried here.

use conformance_tests::{
    kit::Change::{LeaveOut, Replace},
    missing_guards::MissingGuard,
};

use super::{
    node::{Node, Way},
    releases::*,
    votes::*,
};

pub(super) const VARIANTS: &[MissingGuard<Node>] = &[
    MissingGuard {
        what: "S1: an attempt checks the epoch",
        changes: &[Replace("gate", "local mark, refusal = 1")],
        case: |node| Box::pin(another_run(node, Way::Long)),
    },
    MissingGuard {
        what: "S1: an attempt refuses records of another version",
        changes: &[LeaveOut("acquire_version")],
        case: |node| Box::pin(another_version(node)),
    },
    MissingGuard {
        what: "S1: no record of another version is renewed",
        changes: &[LeaveOut("renew_version")],
        case: |node| Box::pin(a_renewal_in_another_version(node)),
    },
    MissingGuard {
        what: "S1: an attempt waits for the quarantine",
        changes: &[Replace("gate", "local mark, refusal = 1")],
        case: |node| Box::pin(a_quarantine(node, Way::Long)),
    },
    MissingGuard {
        what: "S6: no late request is granted",
        changes: &[Replace("late_request", "if false then")],
        case: |node| Box::pin(a_late_request(node, Way::Long)),
    },
    MissingGuard {
        what: "S2: nothing is granted while the clock is behind",
        changes: &[LeaveOut("clock_behind")],
        case: |node| Box::pin(a_clock_behind(node, Way::Long)),
    },
    MissingGuard {
        what: "S1: no quarantine begins with a clock that is off",
        changes: &[LeaveOut("clock_off")],
        case: |node| Box::pin(a_record_to_write_ahead_of_the_others(node)),
    },
    MissingGuard {
        what: "S1: a clock that was ahead and came back begins a quarantine",
        changes: &[Replace("clock_came_back", "local ahead = false")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Granting)),
    },
    MissingGuard {
        what: "S1: a clock that came back cuts no wait short",
        changes: &[Replace("waits_out", "local span = tonumber(ARGV[3])")],
        case: |node| Box::pin(a_clock_that_came_back_in_a_long_wait(node)),
    },
    MissingGuard {
        what: "S1: an attempt notes the clock",
        changes: &[Replace("notes_clock", "elseif false then")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Refusing)),
    },
    MissingGuard {
        what: "S1: a late attempt notes the clock",
        changes: &[LeaveOut("late_notes_clock")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Late)),
    },
    MissingGuard {
        what: "S1: a renewal notes a clock ahead",
        changes: &[LeaveOut("renew_notes_clock")],
        case: |node| Box::pin(a_clock_that_came_back(node, Seen::Renewing)),
    },
    MissingGuard {
        what: "S1: no lease is above the longest",
        changes: &[LeaveOut("longest_lease")],
        case: |node| Box::pin(a_lease_above_the_longest(node, Way::Long)),
    },
    MissingGuard {
        what: "S2: no floor is far ahead",
        changes: &[LeaveOut("floor")],
        case: |node| Box::pin(a_floor_far_ahead(node, Way::Long)),
    },
    MissingGuard {
        what: "S1: a held lock is not given",
        changes: &[Replace("held", "if others then")],
        case: |node| Box::pin(a_held_lock(node, Way::Long)),
    },
    MissingGuard {
        what: "S2: a number is above the watermark",
        changes: &[Replace("above_the_marks", "number = math.max(number, floor + 1)")],
        case: |node| Box::pin(a_number_above_the_watermark(node, Way::Long)),
    },
    MissingGuard {
        what: "S2: a number is above the floor",
        changes: &[Replace("above_the_marks", "number = math.max(number, mark + 1)")],
        case: |node| Box::pin(a_number_above_the_floor(node, Way::Long)),
    },
    MissingGuard {
        what: "S2: an attempt notes the highest number",
        changes: &[Replace("notes_number", "redis.call('HSET', KEYS[1], ARGV[13], text(number))")],
        case: |node| Box::pin(a_batch_after_a_number_far_ahead(node, Raised::ByAttempt)),
    },
    MissingGuard {
        what: "S2: a number that is written notes the highest",
        changes: &[LeaveOut("write_notes_top")],
        case: |node| Box::pin(a_batch_after_a_number_far_ahead(node, Raised::Written)),
    },
    MissingGuard {
        what: "S2: a proposal far ahead is lowered",
        changes: &[Replace("near_the_clock", "number = tonumber(ARGV[9])")],
        case: |node| Box::pin(a_proposal_far_ahead(node, Way::Long)),
    },
    MissingGuard {
        what: "S5: a repeat does not hold a lock again that was released and is kept",
        changes: &[Replace("repeat", "if holder == owner then")],
        case: |node| Box::pin(a_repeat_after_a_release_that_keeps(node)),
    },
    MissingGuard {
        what: "S3: a repeat shortens no lease",
        changes: &[Replace("repeat_lease", "local left = lease")],
        case: |node| Box::pin(a_repeat_with_a_shorter_lease(node)),
    },
    MissingGuard {
        what: "S6: a repeat keeps its number",
        changes: &[Replace("repeat", "if holder == owner then record = false end if false then")],
        case: |node| Box::pin(a_repeat(node)),
    },
    MissingGuard {
        what: "S6: a late attempt does not lower the number of the last attempt",
        changes: &[Replace("last_attempt", "last = attempt")],
        case: |node| Box::pin(a_late_repeat_that_is_taken_back(node)),
    },
    MissingGuard {
        what: "S6: an abandoned owner gets nothing",
        changes: &[LeaveOut("tombstone")],
        case: |node| Box::pin(an_abandoned_owner(node, Way::Long)),
    },
    MissingGuard {
        what: "S6: a clean-up leaves a tombstone",
        changes: &[LeaveOut("leaves_tombstone")],
        case: |node| Box::pin(an_abandoned_owner(node, Way::Short)),
    },
    MissingGuard {
        what: "S6: a tombstone is not lowered",
        changes: &[Replace("tombstone_rises", "if true then")],
        case: |node| Box::pin(an_abandoned_owner(node, Way::Short)),
    },
    MissingGuard {
        what: "S6: a tombstone makes a crowd",
        changes: &[Replace("tombstone_makes_a_crowd", "local crowd = 0")],
        case: |node| Box::pin(an_abandoned_owner(node, Way::Short)),
    },
    MissingGuard {
        what: "L3: a lock is left to the waiter that was called",
        changes: &[Replace("held", "if record then")],
        case: |node| Box::pin(an_attempt_past_the_head(node)),
    },
    MissingGuard {
        what: "L3: a turn ends, also by a clock that went back",
        changes: &[Replace("turn", "local others = turn and turn ~= owner and ends > now")],
        case: |node| Box::pin(a_turn_far_ahead(node)),
    },
    MissingGuard {
        what: "L3: a queue entry makes a crowd",
        changes: &[Replace("entry_makes_a_crowd", "local crowd = 0")],
        case: |node| Box::pin(a_batch_with_one_waiting(node)),
    },
    MissingGuard {
        what: "S2: no raise is far ahead",
        changes: &[Replace("write_lead", "if false then")],
        case: |node| Box::pin(a_raise_far_ahead(node)),
    },
    MissingGuard {
        what: "S2: a number that is written raises the watermark",
        changes: &[LeaveOut("write_notes_mark")],
        case: |node| Box::pin(the_number_after_a_raise(node)),
    },
    MissingGuard {
        what: "S2: a number is only raised",
        changes: &[Replace("write_rises", "if true then")],
        case: |node| Box::pin(a_lower_number(node)),
    },
    MissingGuard {
        what: "S4: a number is written only to the asker's lock",
        changes: &[LeaveOut("write_owner")],
        case: |node| Box::pin(a_number_for_another(node)),
    },
    MissingGuard {
        what: "S4: a number is not written to a lock that was released and is kept",
        changes: &[LeaveOut("write_owner")],
        case: |node| Box::pin(a_number_for_what_is_kept(node)),
    },
    MissingGuard {
        what: "S4: only the owner releases",
        changes: &[Replace("owner_frees", "mine = true")],
        case: |node| Box::pin(a_release_by_another(node)),
    },
    MissingGuard {
        what: "S4: a release leaves a lock that is kept",
        changes: &[LeaveOut("kept")],
        case: |node| Box::pin(a_release_after_one_that_keeps(node)),
    },
    MissingGuard {
        what: "S6: a clean-up leaves a later attempt",
        changes: &[LeaveOut("later_attempt")],
        case: |node| Box::pin(a_late_clean_up(node)),
    },
    MissingGuard {
        what: "S4: only the owner renews",
        changes: &[Replace("renew_owner", "elseif false then")],
        case: |node| Box::pin(a_renewal_by_another(node)),
    },
    MissingGuard {
        what: "S5: a lock that is gone is not renewed",
        changes: &[Replace("renew_gone", "local answer = 1")],
        case: |node| Box::pin(a_renewal_of_what_is_gone(node)),
    },
    MissingGuard {
        what: "S5: a lock that was released and is kept is not renewed",
        changes: &[Replace("renew_kept", "elseif record then")],
        case: |node| Box::pin(a_renewal_of_what_is_kept(node)),
    },
    MissingGuard {
        what: "S1: a renewal keeps to the present longest lease",
        changes: &[LeaveOut("renew_longest")],
        case: |node| Box::pin(a_renewal_above_the_longest_lease(node)),
    },
    MissingGuard {
        what: "S3: a renewal shortens no lease",
        changes: &[Replace("renew_lengthens", "redis.call('PEXPIRE', KEYS[at], lease)")],
        case: |node| Box::pin(a_renewal_with_a_shorter_lease(node)),
    },
    MissingGuard {
        what: "L2: a release calls the next waiter",
        changes: &[Replace("hand_over", "if false then")],
        case: |node| Box::pin(a_release_with_one_waiting(node)),
    },
    MissingGuard {
        what: "L3: dead entries are passed over",
        changes: &[Replace("live_entry", "if ends <= now + LIFE_US then")],
        case: |node| Box::pin(a_dead_entry(node)),
    },
    MissingGuard {
        what: "L3: entries from before the clock went back are passed over",
        changes: &[Replace("live_entry", "if ends > now then")],
        case: |node| Box::pin(an_entry_of_a_clock_ahead(node)),
    },
    MissingGuard {
        what: "L3: a waiter that was called and leaves passes the call on",
        changes: &[LeaveOut("head_left")],
        case: |node| Box::pin(a_head_that_leaves(node)),
    },
];
