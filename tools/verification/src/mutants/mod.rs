//! Broken backends that test the suite: each must be caught by a case. A suite that lets a broken
//! backend pass proves nothing.
//!
//! Each mutant is the backend in memory with one [`Flaw`]; [`ALL`] names the case that must catch
//! it. For missing lines in a backend's scripts and statements see `missing_guards`.

mod flawed;
mod hand_over;
mod records;
mod waiters;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Error, Mutex};

use self::flawed::Flawed;
use conformance_tests::{
    Composition, Harness, MemoryHarness, Outcome, SetUpError, Setting, Store,
    cases::{self, Case},
    run_case,
};

/// One flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// A busy lock is granted all the same.
    GrantsToAll,
    /// Every token is the same.
    TokensStandStill,
    /// The floor of a request is ignored.
    IgnoresTheFloor,
    /// A token that leads the clock is granted, and the next one is lower.
    ForgetsATokenAhead,
    /// A repeat by the owner that asks for less shortens the lease.
    ShortensByARepeat,
    /// A raised token is forgotten.
    RaisesNothing,
    /// The store keeps half of the lease that it reports.
    HalvesTheLease,
    /// Validity is counted from the reply instead of from before the request.
    CountsFromTheReply,
    /// A minimum hold is freed at once.
    KeepsNothing,
    /// A release by any client frees the name.
    ReleasesForAnybody,
    /// A renewal by any client succeeds.
    RenewsForAnybody,
    /// A renewal takes a lock that was lost anew.
    Resurrects,
    /// A clean-up leaves what was taken.
    AbandonsNothing,
    /// A clean-up frees what was taken, and stops no late request.
    LeavesNoTombstone,
    /// A repeat by the owner is refused.
    RefusesItsOwner,
    /// A lease lasts for the longest lease, whatever was asked for.
    OutlivesTheLease,
    /// A waiter gets no push, and its answers tell it to poll again in an hour.
    WakesNobody,
    /// There is no queue, although the store promises fairness.
    KeepsNoQueue,
    /// The queue entry of a dead process stays alive, and takes the lock.
    KeepsDeadEntries,
    /// A release wakes every waiter.
    WakesEveryWaiter,
    /// Every waiter polls as often as the first in the queue.
    AsksAtOneRate,
    /// A release does nothing and answers `Released`.
    ReleasesNothing,
    /// Names are the same in upper and lower case.
    FoldsCase,
    /// After the end of the runtime that made the first attempt, nothing is renewed and no waiter
    /// gets a signal.
    EndsWithItsRuntime,
    /// A listing omits names.
    ListsHalf,
    /// A listing has each name twice.
    ListsTwice,
    /// A repeat by the owner gets a new token.
    MintsAnewForARepeat,
    /// `Busy` does not name the holder's token.
    HidesTheToken,
    /// The answers to a batch of renewals are in another order than its grants.
    AnswersBackwards,
    /// A release by any client answers `Released`.
    SaysReleasedToAll,
    /// A renewed lease is counted from the reply.
    CountsRenewalsFromTheReply,
    /// A renewal lifts the token.
    RenewsTheToken,
    /// A renewal does nothing and answers `Renewed`.
    RenewsNothing,
    /// An operator's release does nothing and answers `Released`.
    ForcesNothing,
    /// An operator's release of one grant frees any grant.
    ForcesAnyToken,
    /// `inspect` does not name the holder.
    TellsNoHolder,
    /// A lease above the longest lease is granted.
    SetsAnyLease,
    /// A store without a quarantine accepts `init` with `restored`.
    AcceptsARestore,
    /// After a restore, a store with a quarantine reports one and begins none.
    GrantsAfterARestore,
    /// A reader is granted an exclusive lock.
    ReadsAlone,
    /// A writer is granted while readers hold the lock.
    WritesBesideReaders,
    /// Every reader's token is the same.
    ReadersTokensStandStill,
    /// The release of one reader ends the holds of the others.
    EndsWithTheFirstReader,
    /// A second release of the same reader counts as another reader's.
    CountsReleases,
    /// The lease of the last reader replaces the leases of the others.
    LastLeaseCounts,
    /// A release serves only the first of the waiting readers.
    ServesOneReader,
    /// A withdrawn queue entry stays in the queue.
    WithdrawsNothing,
    /// `inspect` does not say how many readers hold the lock.
    TellsNoReaders,
    /// Any grant writes the record.
    WritesRecordsForAnybody,
    /// A grant that is gone writes the record if no later grant has.
    ComparesRecordsTokens,
    /// A write that the store carries out late replaces a later one.
    WritesLateRecords,
    /// A repeat of a write is refused.
    RefusesARecordsRepeat,
    /// A release forgets the record.
    ForgetsRecordsWithTheLock,
    /// A record is forgotten after half of its time.
    KeepsRecordsBriefly,
    /// The store keeps 255 bytes of a record.
    CutsRecords,
    /// The time of a record is that of its read.
    TimesRecordsByTheRead,
    /// The store never believes that its records are complete.
    NeverComplete,
    /// A listing has the names that have records.
    ListsRecords,
    /// A lock that is handed over keeps its former owner, too.
    KeepsTheFormerOwner,
    /// A lock can be handed over twice.
    HandsOverTwice,
    /// A lock is handed over whatever token is named.
    HandsOverWithAnyToken,
    /// A minimum hold is handed over.
    HandsOverWhatIsKept,
    /// The client's flaw: the release of the first guard of a hold ends the hold.
    ReleasesWithTheFirst,
    /// The client's flaw: `all` acquires the locks in the order of its arguments.
    TakesInAnyOrder,
    /// The client's flaw: `all` keeps the locks that it has when a later one fails.
    KeepsWhatItTook,
    /// The client's flaw: after `any` has one lock, the other waits go on.
    KeepsLosers,
    /// The client's flaw: a semaphore has one slot more than permits.
    OneSlotMore,
    /// The client's flaw: a latch opens if the store does not answer.
    OpensWithoutAnAnswer,
}

impl Flaw {
    /// How the client composes several locks and records.
    fn composition(self) -> Composition {
        match self {
            Self::ReleasesWithTheFirst => Composition::ReleasesWithTheFirst,
            Self::TakesInAnyOrder => Composition::TakesInAnyOrder,
            Self::KeepsWhatItTook => Composition::KeepsWhatItTook,
            Self::KeepsLosers => Composition::KeepsLosers,
            Self::OneSlotMore => Composition::OneSlotMore,
            Self::OpensWithoutAnAnswer => Composition::OpensWithoutAnAnswer,
            _ => Composition::Sound,
        }
    }
}

/// Every mutant, with the requirement that it breaks and the case that must catch it.
pub const ALL: &[(Flaw, &str, &str)] = &[
    (Flaw::GrantsToAll, "S1", "one_of_many_attempts_wins"),
    (Flaw::FoldsCase, "names", "names_are_kept_apart"),
    (Flaw::ListsHalf, "operation", "a_list_shows_every_held_name"),
    (Flaw::ListsTwice, "operation", "a_list_shows_every_held_name"),
    (Flaw::TokensStandStill, "S2", "tokens_increase_over_releases"),
    (Flaw::IgnoresTheFloor, "S2", "a_token_is_above_the_floor"),
    (Flaw::ForgetsATokenAhead, "S2", "a_token_is_above_the_floor"),
    (Flaw::RaisesNothing, "S2", "a_raised_token_is_exceeded_by_the_next"),
    (Flaw::HalvesTheLease, "S3", "an_unrenewed_lease_ends_and_not_before_its_time"),
    (Flaw::CountsFromTheReply, "S3", "an_unrenewed_lease_ends_and_not_before_its_time"),
    (Flaw::KeepsNothing, "S3", "a_release_may_keep_the_lock_for_a_while"),
    (Flaw::ReleasesForAnybody, "S4", "only_the_owner_releases"),
    (Flaw::RenewsForAnybody, "S4", "only_the_owner_renews"),
    (Flaw::RenewsForAnybody, "S5", "a_release_may_keep_the_lock_for_a_while"),
    (Flaw::Resurrects, "S5", "a_renewal_does_not_bring_a_released_grant_back"),
    (Flaw::AbandonsNothing, "S6", "abandoning_frees_what_was_taken"),
    (Flaw::LeavesNoTombstone, "S6", "an_abandoned_owner_takes_nothing_any_more"),
    (Flaw::RefusesItsOwner, "S6", "a_repeat_by_the_owner_is_the_same_grant"),
    (Flaw::ShortensByARepeat, "S6", "a_repeat_by_the_owner_is_the_same_grant"),
    (Flaw::OutlivesTheLease, "L1", "an_unrenewed_lease_ends_and_not_before_its_time"),
    (Flaw::WakesNobody, "L2", "a_release_serves_a_waiter"),
    (Flaw::KeepsNoQueue, "L3", "no_attempt_barges_past_a_waiter"),
    (Flaw::KeepsDeadEntries, "L3", "a_dead_entry_is_passed_over_in_time"),
    (Flaw::WakesEveryWaiter, "L4", "a_release_does_not_wake_every_waiter"),
    (Flaw::AsksAtOneRate, "L4", "a_waiter_further_back_polls_less_often"),
    (Flaw::RenewsForAnybody, "L5", "a_forced_release_is_learnt_by_the_holder"),
    (Flaw::EndsWithItsRuntime, "L5", "locks_are_renewed_after_the_first_runtime_has_ended"),
    (Flaw::EndsWithItsRuntime, "L2", "waiters_are_pushed_after_the_first_runtime_has_ended"),
    (Flaw::ReleasesNothing, "L6", "close_releases_and_refuses"),
    (Flaw::IgnoresTheFloor, "S2", "a_floor_far_ahead_of_the_clock_is_refused"),
    (Flaw::RaisesNothing, "S2", "a_token_is_not_raised_by_who_does_not_hold"),
    (Flaw::RenewsTheToken, "S2", "a_renewal_keeps_the_token"),
    (Flaw::HidesTheToken, "S3", "a_held_lock_is_refused_with_its_holder_and_token"),
    (Flaw::CountsRenewalsFromTheReply, "S3", "a_batch_of_renewals_is_answered_one_by_one"),
    (Flaw::RenewsNothing, "S3", "a_renewal_sets_the_lease_anew"),
    (Flaw::AnswersBackwards, "S4", "a_batch_of_renewals_is_answered_one_by_one"),
    (Flaw::SaysReleasedToAll, "S4", "a_release_twice_is_not_held_the_second_time"),
    (Flaw::MintsAnewForARepeat, "S6", "a_repeat_by_the_owner_is_the_same_grant"),
    (Flaw::ForcesNothing, "operation", "a_renewal_does_not_bring_a_forced_grant_back"),
    (Flaw::ForcesAnyToken, "operation", "a_forced_release_of_one_grant_leaves_the_next_alone"),
    (Flaw::TellsNoHolder, "operation", "inspect_tells_the_holder_and_then_no_holder"),
    (Flaw::SetsAnyLease, "S1", "a_lease_above_the_longest_is_refused_by_the_store"),
    (Flaw::AcceptsARestore, "S1", "after_a_restore_init_holds_grants_back_or_refuses"),
    (Flaw::GrantsAfterARestore, "S1", "after_a_restore_init_holds_grants_back_or_refuses"),
    (Flaw::ReleasesWithTheFirst, "S4", "only_the_last_guard_of_a_hold_releases_it"),
    (Flaw::TakesInAnyOrder, "S1", "all_of_two_in_opposite_orders_both_finish"),
    (Flaw::KeepsWhatItTook, "S6", "all_that_fails_leaves_nothing"),
    (Flaw::KeepsLosers, "S6", "any_keeps_one_and_leaves_no_entry"),
    (Flaw::ReadsAlone, "S1", "readers_share_and_exclude_writers"),
    (Flaw::WritesBesideReaders, "S1", "readers_share_and_exclude_writers"),
    (Flaw::LastLeaseCounts, "S1", "a_group_lasts_as_long_as_its_longest_lease"),
    (Flaw::GrantsToAll, "S1", "one_reader_above_the_most_is_busy"),
    (Flaw::ReadersTokensStandStill, "S2", "tokens_rise_between_readers_and_writers"),
    (
        Flaw::ReadersTokensStandStill,
        "S2",
        "a_readers_token_admits_readers_and_refuses_a_writer_from_before",
    ),
    (Flaw::CountsReleases, "S4", "a_reader_that_leaves_twice_counts_once"),
    (Flaw::ReleasesForAnybody, "S4", "a_new_group_forgets_the_old"),
    (Flaw::RenewsForAnybody, "S5", "a_reader_that_left_renews_nothing"),
    (Flaw::MintsAnewForARepeat, "S6", "a_repeat_by_a_reader_is_the_same_grant"),
    (Flaw::LeavesNoTombstone, "S6", "an_abandoned_reader_joins_nothing"),
    (Flaw::AbandonsNothing, "S6", "abandoning_a_reader_leaves_the_others"),
    (Flaw::OutlivesTheLease, "L1", "a_crashed_reader_delays_a_writer_by_its_lease"),
    (Flaw::EndsWithTheFirstReader, "L2", "a_writer_waits_for_the_last_reader"),
    (Flaw::ServesOneReader, "L2", "a_release_serves_all_waiting_readers"),
    (Flaw::KeepsNoQueue, "L3", "no_reader_passes_a_waiting_writer"),
    (Flaw::KeepsNoQueue, "L3", "readers_in_a_loop_do_not_starve_a_writer"),
    (Flaw::WithdrawsNothing, "L3", "a_writer_that_gives_up_lets_the_readers_behind_it_in"),
    (Flaw::RenewsForAnybody, "L5", "a_forced_release_is_learnt_by_every_reader"),
    (Flaw::TellsNoReaders, "operation", "inspect_and_list_tell_how_many_readers_share"),
    (Flaw::OneSlotMore, "S1", "a_semaphore_has_as_many_holders_as_permits"),
    (Flaw::KeepsTheFormerOwner, "S4", "a_lock_that_is_handed_over_has_one_owner"),
    (Flaw::HandsOverTwice, "S1", "a_lock_is_handed_over_once"),
    (Flaw::HandsOverWithAnyToken, "S4", "only_the_named_grant_is_handed_over"),
    (Flaw::HandsOverWhatIsKept, "S5", "what_is_gone_is_not_handed_over"),
    (Flaw::OutlivesTheLease, "L1", "a_lock_that_is_handed_over_has_its_new_lease"),
    (Flaw::LeavesNoTombstone, "S6", "an_abandoned_owner_is_handed_nothing"),
    (Flaw::HandsOverTwice, "S1", "a_detached_guard_is_attached_once"),
    (Flaw::ForgetsRecordsWithTheLock, "S7", "a_record_outlives_its_lock"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_stale_holder_writes_no_record"),
    (Flaw::ComparesRecordsTokens, "S7", "a_stale_holder_writes_no_record"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_released_grant_writes_no_record"),
    (Flaw::WritesRecordsForAnybody, "S7", "an_expired_grant_writes_no_record"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_reader_writes_no_record"),
    (Flaw::RefusesARecordsRepeat, "S7", "a_repeated_write_changes_nothing"),
    (Flaw::WritesLateRecords, "S7", "a_repeated_write_changes_nothing"),
    (Flaw::CutsRecords, "S7", "a_record_holds_any_bytes"),
    (Flaw::FoldsCase, "S7", "records_of_names_are_kept_apart"),
    (Flaw::KeepsRecordsBriefly, "S7", "a_record_is_kept_for_its_time"),
    (Flaw::TimesRecordsByTheRead, "S7", "a_record_has_the_time_of_its_write"),
    (Flaw::ListsRecords, "S7", "a_record_is_no_lock"),
    (Flaw::NeverComplete, "S7", "an_operator_says_that_records_are_complete"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_guard_writes_its_record"),
    (Flaw::ForgetsRecordsWithTheLock, "S7", "a_latch_opens_when_each_part_is_counted_down"),
    (Flaw::RefusesARecordsRepeat, "S7", "a_count_without_an_answer_counts_once"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_former_holder_counts_nothing"),
    (Flaw::OpensWithoutAnAnswer, "S7", "a_store_that_does_not_answer_opens_no_latch"),
    (Flaw::WritesRecordsForAnybody, "S7", "a_former_leader_publishes_nothing"),
];

/// Adds a flaw to the backend `sound`.
pub fn flawed(sound: Arc<dyn Backend>, flaw: Flaw) -> Arc<dyn Backend> {
    Arc::new(Flawed::new(sound, Some(flaw)))
}

/// How long a case may take before it counts as hung. All mutants run at the same time, and each
/// case has its own, shorter limits.
const LIMIT: Duration = Duration::from_secs(300);

/// The lease of the cases that must see that a lock was free too early. The flaw must show although
/// a slow machine looks at the lock seconds later.
const LONG: Duration = Duration::from_secs(20);

/// The result of a case over a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The case failed with this message.
    Caught(String),
    /// The case passed, so it does not notice the flaw.
    Survived,
    /// There is no result: the case hung, was skipped, does not exist, or its store did not start.
    Untried(String),
}

/// Runs `case` over the backend in memory with this flaw.
pub async fn verdict(flaw: Flaw, case: &str) -> Verdict {
    match outcome(Some(flaw), case).await {
        Ok(Outcome::Failed(why)) => Verdict::Caught(why),
        Ok(Outcome::Passed) => Verdict::Survived,
        Ok(Outcome::Hung(limit)) => Verdict::Untried(format!("hung: no end within {limit:?}")),
        Ok(Outcome::Skipped(reason)) => Verdict::Untried(format!("skipped: {reason}")),
        Err(error) => Verdict::Untried(error.to_string()),
    }
}

/// Runs `case` over the sound backend in memory, through the same wrapper.
///
/// # Errors
/// How the case failed.
pub async fn passes(case: &str) -> Result<(), String> {
    match outcome(None, case).await {
        Ok(Outcome::Passed) => Ok(()),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

async fn outcome(flaw: Option<Flaw>, case: &str) -> Result<Outcome, SetUpError> {
    let all = cases::all();
    let found = all.iter().find(|each| each.name == case);
    let case: &Case = found.ok_or_else(|| format!("there is no case {case}"))?;
    let harness: Arc<dyn Harness> = Arc::new(MutantHarness { flaw, seen: Mutex::default() });
    let store = harness.start().await?;
    let promised = harness.connect(&store.address).await?.guarantees();
    let composition = flaw.map_or(Composition::Sound, Flaw::composition);
    let setting = Setting::new(Arc::clone(&harness), &store.address, case.name, promised)
        .with_composition(composition);
    Ok(run_case(case, setting, LIMIT).await)
}

/// Connects to the backend in memory with a flaw. All connections of a run share one wrapper.
struct MutantHarness {
    flaw: Option<Flaw>,
    seen: Mutex<Option<Arc<dyn Backend>>>,
}

#[async_trait]
impl Harness for MutantHarness {
    fn name(&self) -> &'static str {
        "mutant"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        MemoryHarness.start().await
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        let sound = MemoryHarness.connect(address).await?;
        let mut seen = self.seen.lock();
        let flawed = seen.get_or_insert_with(|| Arc::new(Flawed::new(sound, self.flaw)));
        Ok(Arc::clone(flawed))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn lease(&self) -> Duration {
        match self.flaw {
            Some(Flaw::HalvesTheLease | Flaw::KeepsNothing) => LONG,
            _ => MemoryHarness.lease(),
        }
    }
}
