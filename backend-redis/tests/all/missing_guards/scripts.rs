//! Guards that are best tested on the scripts themselves, since the client or another way mostly makes up for them. Guards
//! of the short ways and of batches are in `short_ways`.

use conformance_tests::{
    kit::Change::{LeaveOut, Replace},
    missing_guards::MissingGuard,
};

use super::{
    cases::{
        a_changed_longest_lease, a_clean_up_by_another, a_clean_up_of_what_is_kept,
        a_client_with_an_old_handshake, a_clock_that_went_back, a_failover_that_went_unnoticed,
        a_floor_far_ahead, a_held_lock, a_late_request, a_lease_above_the_longest,
        a_longer_longest_lease, a_lower_token, a_quarantine, a_quarantine_that_is_turned_on,
        a_raise_by_another, a_raise_far_ahead, a_raise_of_what_is_kept, a_release_by_another,
        a_renewal_above_the_longest_lease, a_renewal_in_another_version, a_renewal_of_what_is_gone,
        a_renewal_of_what_is_kept, a_renewal_with_a_shorter_lease, a_repeat,
        a_repeat_above_the_longest_lease, a_repeat_after_a_release_that_keeps,
        a_repeat_in_another_version, a_repeat_with_a_shorter_lease, a_token_above_the_floor,
        an_abandoned_owner, an_init_in_another_version, another_replication, another_run,
        another_version, other_settings, the_token_after_a_raise, tokens_that_are_set_back,
        without_memory,
    },
    server::{Server, Way},
};

pub(super) const VARIANTS: &[MissingGuard<Server>] = &[
    MissingGuard {
        what: "S6: the long way refuses a late request",
        changes: &[LeaveOut("late")],
        case: |server| Box::pin(a_late_request(server, Way::Long)),
    },
    MissingGuard {
        what: "S6: a release carries no late request",
        changes: &[LeaveOut("next_late")],
        case: |server| Box::pin(a_late_request(server, Way::Next)),
    },
    MissingGuard {
        what: "S6: the long way checks for a tombstone",
        changes: &[LeaveOut("tombstone")],
        case: |server| Box::pin(an_abandoned_owner(server, Way::Long)),
    },
    MissingGuard {
        what: "S6: a release checks for the tombstone of the next request",
        changes: &[Replace("next_tombstone", "if next_ ~= '' then")],
        case: |server| Box::pin(an_abandoned_owner(server, Way::Next)),
    },
    MissingGuard {
        what: "S6: an abandoned owner leaves a tombstone",
        changes: &[LeaveOut("abandon_tombstone")],
        case: |server| Box::pin(an_abandoned_owner(server, Way::Short)),
    },
    MissingGuard {
        what: "S6: a repeat is the same grant",
        changes: &[Replace("repeat", "if false then")],
        case: |server| Box::pin(a_repeat(server)),
    },
    MissingGuard {
        what: "S1: another run id starts a quarantine",
        changes: &[Replace("new_epoch", "from = 0")],
        case: |server| Box::pin(another_run(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: the long way compares the replication id",
        changes: &[Replace("known", "local known = last_run == run")],
        case: |server| Box::pin(another_replication(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: the long way waits for the quarantine",
        changes: &[Replace("quarantine", "if false then")],
        case: |server| Box::pin(a_quarantine(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: the long way compares the settings",
        changes: &[LeaveOut("settings")],
        case: |server| Box::pin(other_settings(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: the long way refuses records of another version",
        changes: &[LeaveOut("version")],
        case: |server| Box::pin(another_version(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: a repeat refuses records of another version",
        changes: &[LeaveOut("repeat_version")],
        case: |server| Box::pin(a_repeat_in_another_version(server)),
    },
    MissingGuard {
        what: "S1: a repeated release prolongs no record of another version",
        changes: &[LeaveOut("next_version")],
        case: |server| Box::pin(another_version(server, Way::Again)),
    },
    MissingGuard {
        what: "S1: no record of another version is renewed",
        changes: &[LeaveOut("renew_version")],
        case: |server| Box::pin(a_renewal_in_another_version(server)),
    },
    MissingGuard {
        what: "S1: init changes no records of another version",
        changes: &[LeaveOut("init_version")],
        case: |server| Box::pin(an_init_in_another_version(server)),
    },
    MissingGuard {
        what: "S1: a changed longest lease starts a wait",
        changes: &[Replace("init_longest", "elseif false then")],
        case: |server| Box::pin(a_changed_longest_lease(server)),
    },
    MissingGuard {
        what: "S1: if the old longest lease was longer, the wait is as long",
        changes: &[Replace("init_old_longest", "span = 0")],
        case: |server| Box::pin(a_changed_longest_lease(server)),
    },
    MissingGuard {
        what: "S1: if the new longest lease is longer, the wait is as long",
        changes: &[Replace("init_old_longest", "lease = tonumber(old_longest)")],
        case: |server| Box::pin(a_longer_longest_lease(server)),
    },
    MissingGuard {
        what: "S1: turning the quarantine on starts a whole wait",
        changes: &[Replace("init_quarantine", "elseif false then")],
        case: |server| Box::pin(a_quarantine_that_is_turned_on(server)),
    },
    MissingGuard {
        what: "S1: setting tokens back starts a quarantine",
        changes: &[Replace("init_tokens", "if false then")],
        case: |server| Box::pin(tokens_that_are_set_back(server)),
    },
    MissingGuard {
        what: "S1: a repeat keeps to the present longest lease",
        changes: &[LeaveOut("repeat_lease")],
        case: |server| Box::pin(a_repeat_above_the_longest_lease(server)),
    },
    MissingGuard {
        what: "S1: a renewal keeps to the present longest lease",
        changes: &[LeaveOut("renew_longest")],
        case: |server| Box::pin(a_renewal_above_the_longest_lease(server)),
    },
    MissingGuard {
        what: "S1: a client with an old handshake writes no record",
        changes: &[LeaveOut("stale")],
        case: |server| Box::pin(a_client_with_an_old_handshake(server)),
    },
    MissingGuard {
        what: "S1: if a replica may be promoted, the long way checks the server's identity",
        changes: &[LeaveOut("failover")],
        case: |server| Box::pin(a_failover_that_went_unnoticed(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: the long way refuses a lease above the longest",
        changes: &[LeaveOut("lease")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::Long)),
    },
    MissingGuard {
        what: "S1: a release refuses a next request above the longest lease",
        changes: &[LeaveOut("next_lease")],
        case: |server| Box::pin(a_lease_above_the_longest(server, Way::Next)),
    },
    MissingGuard {
        what: "L2: a handoff needs no memory",
        changes: &[Replace(
            "handover_memory",
            "if redis.call('HSET', KEYS[4], next_, entry) == 1 then",
        )],
        case: |server| Box::pin(without_memory(server)),
    },
    MissingGuard {
        what: "S2: the long way refuses a floor far ahead",
        changes: &[LeaveOut("floor")],
        case: |server| Box::pin(a_floor_far_ahead(server, Way::Long)),
    },
    MissingGuard {
        what: "S2: a release refuses a next request with a floor far ahead",
        changes: &[LeaveOut("next_floor")],
        case: |server| Box::pin(a_floor_far_ahead(server, Way::Next)),
    },
    MissingGuard {
        what: "S2: a raise far ahead is refused",
        changes: &[LeaveOut("raise_limit")],
        case: |server| Box::pin(a_raise_far_ahead(server)),
    },
    MissingGuard {
        what: "S1: the long way takes only a free lock",
        changes: &[Replace("held", "local record = false")],
        case: |server| Box::pin(a_held_lock(server, Way::Long)),
    },
    MissingGuard {
        what: "S2: the long way writes its token to the watermark",
        changes: &[LeaveOut("mark")],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Long, Way::Short)),
    },
    MissingGuard {
        what: "S2: the long way goes above the watermark",
        changes: &[Replace("mint", "local token = math.max(now, floor + 1)")],
        case: |server| Box::pin(a_clock_that_went_back(server, Way::Short, Way::Long)),
    },
    MissingGuard {
        what: "S2: the long way goes above the floor",
        changes: &[Replace("mint", "local token = math.max(now, mark + 1)")],
        case: |server| Box::pin(a_token_above_the_floor(server, Way::Long)),
    },
    MissingGuard {
        what: "S2: a handoff goes above the floor of the entry",
        changes: &[Replace("entry_floor", "local token = mint(now, mark, 0)")],
        case: |server| Box::pin(a_token_above_the_floor(server, Way::Next)),
    },
    MissingGuard {
        what: "S2: a raise lifts the watermark",
        changes: &[LeaveOut("raise_mark")],
        case: |server| Box::pin(the_token_after_a_raise(server)),
    },
    MissingGuard {
        what: "S2: a token is only raised",
        changes: &[Replace("raise_only", "if true then")],
        case: |server| Box::pin(a_lower_token(server)),
    },
    MissingGuard {
        what: "S3: a repeat shortens no lease",
        changes: &[Replace("repeat_shorter", "redis.call('PEXPIRE', KEYS[2], lease)")],
        case: |server| Box::pin(a_repeat_with_a_shorter_lease(server)),
    },
    MissingGuard {
        what: "S3: a renewal shortens no lease",
        changes: &[Replace("renew_shorter", "redis.call('PEXPIRE', KEYS[at], lease)")],
        case: |server| Box::pin(a_renewal_with_a_shorter_lease(server)),
    },
    MissingGuard {
        what: "S4: only the owner releases",
        changes: &[Replace("release_owner", "mine = 1")],
        case: |server| Box::pin(a_release_by_another(server)),
    },
    MissingGuard {
        what: "S4: a clean-up frees only its owner's lock",
        changes: &[LeaveOut("abandon_owner")],
        case: |server| Box::pin(a_clean_up_by_another(server)),
    },
    MissingGuard {
        what: "S4: a clean-up leaves a lock that is kept",
        changes: &[LeaveOut("abandon_kept")],
        case: |server| Box::pin(a_clean_up_of_what_is_kept(server)),
    },
    MissingGuard {
        what: "S4: only the owner raises",
        changes: &[LeaveOut("raise_owner")],
        case: |server| Box::pin(a_raise_by_another(server)),
    },
    MissingGuard {
        what: "S5: a lock that is gone is not renewed",
        changes: &[Replace("renew_gone", "local answer = 1")],
        case: |server| Box::pin(a_renewal_of_what_is_gone(server)),
    },
    MissingGuard {
        what: "S5: a lock that was released and is kept is not renewed",
        changes: &[Replace("renew_kept", "elseif state then")],
        case: |server| Box::pin(a_renewal_of_what_is_kept(server)),
    },
    MissingGuard {
        what: "S5: a lock that was released and is kept is not raised",
        changes: &[LeaveOut("raise_kept")],
        case: |server| Box::pin(a_raise_of_what_is_kept(server)),
    },
    MissingGuard {
        what: "S5: a repeat does not hold a lock again that was released and is kept",
        changes: &[Replace("repeat_kept", "else")],
        case: |server| Box::pin(a_repeat_after_a_release_that_keeps(server)),
    },
];
