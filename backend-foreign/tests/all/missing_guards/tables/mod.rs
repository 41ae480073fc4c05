//! Broken variants of the statements on ShedLock's table.

mod cases;
mod stage;

use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{
    MissingGuard,
    cases::{
        a_batch_with_a_locked_row, a_held_name, a_late_renewal, a_release_by_another,
        an_abandoned_owner, kept_of_an_abandoned,
    },
    every_marker_is_tried, try_all,
};
use verification::variants;

use self::{
    cases::*,
    stage::{Clocked, MYSQL, POSTGRES, Table},
};
use super::any::*;

const IN_POSTGRES: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/postgres")];
const IN_MYSQL: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/mysql")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_postgres_miss_their_guards() {
    try_all(IN_POSTGRES, POSTGRESES).await;
    try_all(IN_POSTGRES, CLOCKED).await;
    let names = [MissingGuard::names(POSTGRESES), MissingGuard::names(CLOCKED)].concat();
    every_marker_is_tried(IN_POSTGRES, &names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_mysql_miss_their_guards() {
    try_all(IN_MYSQL, MYSQLS).await;
    every_marker_is_tried(IN_MYSQL, &MissingGuard::names(MYSQLS));
}

variants! {
    POSTGRESES |stage: Table<POSTGRES>|
    "S6: an abandoned owner gets an answer" Replace("not-abandoned", "AND false") => an_abandoned_owner_has_an_answer(stage);
    "L5: a renewal does not wait for a row that another has locked" Replace("renew-skips", "FOR UPDATE OF l") => a_batch_beside_another_transaction(stage);
    "S1: a held name is not granted" LeaveOut("held") => a_held_name(stage);
    "S1: a lock of ShedLock is left alone" LeaveOut("held") => a_foreign_holder_of_the_row(stage);
    "S6: an owner that is abandoned while its attempt waits gets nothing" LeaveOut("abandoned-meanwhile") => an_attempt_abandoned_while_it_waits(stage);
    "S6: abandoning leaves a tombstone" Replace("tombstone-new", "VALUES ($1, 0, pg_catalog.left($2, 0))") => an_abandoned_owner(stage);
    "S6: abandoning leaves the tombstones of others" Replace("tombstone-others", "buried = $2::text || ','") => two_abandoned_owners(stage);
    "S6: abandoning leaves what is kept" Replace("hold-mark", "locked_by = $2") => kept_of_an_abandoned(stage);
    "S2: a token is above the last one" Replace("above-the-last", "token = greatest(0, $5)") => a_token_over_the_last(stage);
    "S2: a token is above the floor" Replace("above-the-last", "token = c.token + 1") => a_floor_of_a_known_name(stage);
    "S2: a new name's token is above the floor" Replace("floor-of-new", "$5 * 0 + 1") => a_floor_of_a_new_name(stage);
    "S2: a token is above those that were lost" Replace("floor-of-new", "$5") => a_token_after_a_loss(stage);
    "S4: only the owner releases" Replace("release-owner", "AND $2 <> ''") => a_release_by_another(stage);
    "S4: what is over is not released" LeaveOut("release-over") => a_late_release(stage);
    "S4: only the owner keeps" LeaveOut("hold-owner") => a_minimum_hold_by_another(stage);
    "S5: what is over is not kept" LeaveOut("hold-over") => a_late_minimum_hold(stage);
    "S4: only the owner renews" LeaveOut("renew-owner") => a_longer_renewal_by_another(stage);
    "S5: what is over is not renewed" LeaveOut("renew-over") => a_late_renewal(stage);
    "S5: what is kept is not renewed" Replace("hold-mark", "locked_by = $2") => a_renewal_of_what_is_kept(stage);
    "S3: a renewal shortens no lease"
        Replace("renew-shorter", "lock_until = pg_catalog.timezone('UTC', pg_catalog.now()) + ours.lease") => a_shorter_renewal(stage);
    "S4: a renewal that waits for its row finds its owner there" Replace("renew-one-owner", "AND $2 <> ''") => a_renewal_of_what_was_taken(stage);
    "S3: a repeat shortens no lease"
        Replace("renew-one-shorter", "lock_until = pg_catalog.timezone('UTC', pg_catalog.now()) + $3") => a_shorter_repeat(stage);
    "S4: only the owner raises" Replace("raise-owner", "AND $2 <> ''") => a_raise_by_another(stage);
    "S4: what is over is not raised" LeaveOut("raise-over") => a_late_raise(stage);
    "S2: a token is only raised" Replace("raise-only", "token = $3") => a_raise_to_less(stage);
    "S2: force lowers no token" LeaveOut("repair-bad") => a_token_over_a_force(stage);
    "S4: force reports that nobody held it" LeaveOut("force-held") => force_of_a_free_name(stage);
    "migration: a leasehold client does not count as foreign" LeaveOut("foreign-holder") => only_leasehold_locks_in_a_listing(stage);
}

variants! {
    CLOCKED |stage: Clocked|
    "S5: what is over when its row is locked is not renewed" LeaveOut("renew-one-over") => a_renewal_that_waits_for_the_row(stage);
    "S6: no statement of a client that has gone succeeds a minute later" LeaveOut("young") => an_attempt_of_one_who_has_gone(stage);
}

variants! {
    MYSQLS |stage: Table<MYSQL>|
    "L5: a renewal does not wait for a row that another has locked" Replace("renew-skips", "FOR UPDATE") => a_batch_beside_another_in_mysql(stage);
    "S1: a held name is not granted" LeaveOut("held") => a_held_name(stage);
    "S1: a lock of ShedLock is left alone" LeaveOut("held") => a_foreign_holder_of_the_row(stage);
    "S6: an abandoned owner gets nothing" Replace("not-abandoned", "AND ? <> ''") => an_abandoned_owner(stage);
    "S6: abandoning leaves a tombstone" Replace("tombstone-new", "VALUES (?, 0, LEFT(?, 0))") => an_abandoned_owner(stage);
    "S6: abandoning leaves the tombstones of others" Replace("tombstone-others", "buried = CONCAT(?, ',')") => two_abandoned_owners(stage);
    "S6: abandoning leaves what is kept" Replace("hold-mark", "locked_by = ?") => kept_of_an_abandoned(stage);
    "S2: a token is above the last one" Replace("above-the-last", "c.token = LAST_INSERT_ID(GREATEST(0, ?))") => a_token_over_the_last(stage);
    "S2: a token is above the floor" Replace("above-the-last", "c.token = LAST_INSERT_ID(c.token + 1 + 0 * ?)") => a_floor_of_a_known_name(stage);
    "S2: a token is above those that were lost" Replace("above-the-last", "c.token = LAST_INSERT_ID(GREATEST(c.token + 1, ?))") => a_token_after_a_loss(stage);
    "S4: only the owner releases" Replace("release-owner", "AND ? <> ''") => a_release_by_another(stage);
    "S4: what is over is not released" LeaveOut("release-over") => a_late_release(stage);
    "S4: only the owner keeps" Replace("hold-owner", "AND ? <> ''") => a_minimum_hold_by_another(stage);
    "S5: what is over is not kept" LeaveOut("hold-over") => a_late_minimum_hold(stage);
    "S4: only the owner renews" Replace("renew-owner", "AND ? <> ''") => a_longer_renewal_by_another(stage);
    "S5: what is over is not renewed" LeaveOut("renew-over") => a_late_renewal(stage);
    "S5: what is kept is not renewed" Replace("hold-mark", "locked_by = ?") => a_renewal_of_what_is_kept(stage);
    "S3: a renewal shortens no lease"
        Replace("renew-shorter", "lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND") => a_shorter_renewal(stage);
    "S4: a renewal that waits for its row finds its owner there" Replace("renew-one-owner", "AND ? <> ''") => a_renewal_of_what_was_taken(stage);
    "S5: what is over when its row is locked is not renewed" LeaveOut("renew-one-over") => a_renewal_of_what_was_released(stage);
    "S5: a renewal that waited undoes no release" Replace("release-past", "lock_until = UTC_TIMESTAMP(6)") => a_renewal_of_what_was_released(stage);
    "S5: a renewal that waited undoes no force" Replace("force-past", "lock_until = UTC_TIMESTAMP(6)") => a_renewal_of_what_was_freed(stage);
    "S3: a repeat shortens no lease"
        Replace("renew-one-shorter", "lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND") => a_shorter_repeat(stage);
    "S4: only the owner raises" Replace("raise-owner", "AND ? <> ''") => a_raise_by_another(stage);
    "S4: what is over is not raised" LeaveOut("raise-over") => a_late_raise(stage);
    "S2: a token is only raised" Replace("raise-only", "c.token = ?") => a_raise_to_less(stage);
    "S2: force lowers no token" LeaveOut("repair-bad") => a_token_over_a_force(stage);
    "S4: force reports that nobody held it" LeaveOut("force-held") => force_of_a_free_name(stage);
    "migration: a leasehold client does not count as foreign" LeaveOut("foreign-holder") => only_leasehold_locks_in_a_listing(stage);
}
