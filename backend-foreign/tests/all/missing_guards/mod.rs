//! Broken variants of the scripts. A proxy in front of a real server removes one guard from a
//! script, and the case for that guard must fail. With the unchanged script the same case must
//! pass.

mod any;
mod cases;
mod server;
mod tables;

use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{
    MissingGuard,
    cases::{
        a_held_name, a_late_renewal, a_release_by_another, a_renewal_above_the_longest_lease,
        an_abandoned_owner, kept_of_an_abandoned,
    },
    every_marker_is_tried, try_all,
};
use verification::variants;

use self::{any::*, cases::*, server::Shared};

const FOLDERS: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/scripts")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_miss_their_guards() {
    try_all(FOLDERS, VARIANTS).await;
}

#[test]
fn each_guard_is_left_out_once() {
    every_marker_is_tried(FOLDERS, &MissingGuard::names(VARIANTS));
}

variants! {
    VARIANTS |stage: Shared|
    "S1: a held name is not granted" Replace("held", "if false then") => a_held_name(stage);
    "S1: a foreign lock is left alone" Replace("held", "if false then") => a_foreign_holder(stage);
    "S1: an attempt waits for the quarantine" Replace("admit", "local mark = 1") => an_attempt_in_the_quarantine(stage);
    "S6: no late request is granted" Replace("admit", "local mark = 1") => a_late_request(stage);
    "S2: no floor is far ahead" Replace("admit", "local mark = 1") => a_floor_far_ahead(stage);
    "S1: no lease is above the longest" Replace("admit", "local mark = 1") => a_lease_above_the_longest(stage);
    "S6: an abandoned owner gets nothing" LeaveOut("tombstone") => an_abandoned_owner(stage);
    "S6: abandoning leaves a tombstone" LeaveOut("abandon_tombstone") => an_abandoned_owner(stage);
    "S4: abandoning frees only its owner's lock" Replace("abandon_owner", "local mine = true") => abandoning_beside_a_holder(stage);
    "S4: abandoning leaves what is kept" LeaveOut("abandon_kept") => kept_of_an_abandoned(stage);
    "S2: a token is above the last foreign one" LeaveOut("last_token") => a_token_of_the_other_side(stage);
    "S2: the last token is kept for foreign clients" LeaveOut("keeps_token") => the_token_for_the_other_side(stage);
    "L1: a lock of leasehold always expires" LeaveOut("hash_ends") => a_hash_that_ends(stage);
    "L2: leasehold clients leave the lock alone after many grants" LeaveOut("rest") => many_grants_in_a_row(stage);
    "L2: a release begins the rest" Replace("begins_rest", "if false then") => many_grants_in_a_row(stage);
    "migration: a foreign client is noted" LeaveOut("notes_theirs") => a_foreign_client_in_a_listing(stage);
    "L2: a release wakes by message" LeaveOut("wake_publish") => a_waiter_by_message(stage);
    "L2: a release wakes by the message to a registry" LeaveOut("wake_registry") => a_waiter_of_a_registry(stage);
    "L2: a release leaves a signal" LeaveOut("wake_list") => a_waiter_by_signal(stage);
    "S6: a repeat keeps its grant" Replace("repeat", "if false then") => a_repeat(stage);
    "S4: a repeat takes no lock of another" Replace("repeat_owner", "local own = noted == owner") => a_repeat_after_another_took_it(stage);
    "S5: a repeat holds nothing that is kept" LeaveOut("repeat_kept") => a_repeat_of_what_is_kept(stage);
    "S1: a repeat leaves records of another version alone" LeaveOut("repeat_version") => a_repeat_in_another_version(stage);
    "S1: a repeat respects the present longest lease" Replace("repeat_lease", "own = true") => a_repeat_above_the_longest_lease(stage);
    "S3: a repeat shortens no lease" Replace("repeat_shorter", "if true then") => a_shorter_repeat(stage);
    "S4: only the owner releases" LeaveOut("release_owner") => a_release_by_another(stage);
    "S4: a release leaves what is kept" LeaveOut("release_kept") => a_release_of_what_is_kept(stage);
    "S4: only the owner renews" Replace("renew_owner", "if false then") => a_renewal_after_another_took_it(stage);
    "S5: what is gone is not renewed" Replace("renew_gone", "local answer = 1") => a_late_renewal(stage);
    "S5: what is kept is not renewed" Replace("renew_kept", "elseif true then") => a_renewal_of_what_is_kept(stage);
    "S3: a renewal shortens no lease" Replace("renew_shorter", "if true then") => a_shorter_renewal(stage);
    "S1: a renewal respects the present longest lease" LeaveOut("renew_longest") => a_renewal_above_the_longest_lease(stage);
    "S1: no record of another version is renewed" LeaveOut("renew_version") => a_renewal_in_another_version(stage);
    "S4: only the owner raises" LeaveOut("raise_owner") => a_raise_by_another(stage);
    "S4: what is kept is not raised" LeaveOut("raise_kept") => a_raise_of_what_is_kept(stage);
    "S2: no raise is far ahead" LeaveOut("raise_limit") => a_raise_far_ahead(stage);
    "S2: a token is only raised" Replace("raise_only", "if true then") => a_raise_to_less(stage);
    "S2: a raise is remembered" LeaveOut("raise_mark") => a_token_after_a_raise(stage);
    "S4: force removes no data of another kind" LeaveOut("force_type") => force_on_other_data(stage);
}
