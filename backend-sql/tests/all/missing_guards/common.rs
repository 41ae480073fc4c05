//! The guards that the statements of every database have. The cases are the same; only the changed
//! text differs.

use servers::{Change, KitError};
use verification::missing_guards::{
    Clients, MissingGuard, Verdict,
    cases::{
        LONG, a_held_name, a_late_renewal, a_release_by_another, an_abandoned_owner, first_use,
        granted, kept_of_an_abandoned, request, words,
    },
    record_cases,
};

use super::readers;

/// Takes a new name while the watermark leads the clock. `lead` raises the watermark, and returns
/// it.
pub(super) async fn below_the_watermark<S: Clients>(
    setup: &S,
    lead: impl Future<Output = Result<String, KitError>>,
) -> Verdict {
    let store = first_use(setup).await;
    // The client has read the watermark before.
    granted(&*store, &request("old", LONG)).await?;
    let watermark: u64 = lead.await.map_err(words)?.parse().map_err(words)?;
    let grant = granted(&*store, &request("new", LONG)).await?;
    match grant.token.get() > watermark {
        true => Ok(()),
        false => Err(format!("token {} came after the watermark {watermark}", grant.token)),
    }
}

type Changes = &'static [Change<'static>];

/// How the statements of one database lose each guard.
pub(super) struct Common {
    pub(super) held: Changes,
    pub(super) release_owner: Changes,
    pub(super) renew_expired: Changes,
    pub(super) abandoned: Changes,
    pub(super) abandon_kept: Changes,
    pub(super) join_expires: Changes,
    pub(super) join_others: Changes,
    pub(super) join_above: Changes,
    pub(super) renew_reader: Changes,
    pub(super) renew_readers_expired: Changes,
    pub(super) join_abandoned: Changes,
    pub(super) join_barging: Changes,
    pub(super) record_owner: Changes,
    pub(super) record_kept: Changes,
    pub(super) record_expired: Changes,
    pub(super) record_number: Changes,
    pub(super) record_time: Changes,
}

pub(super) fn without_common_guards<S: Clients>(common: &Common) -> Vec<MissingGuard<S>> {
    vec![
        MissingGuard {
            what: "S1: a name that is held is not granted",
            changes: common.held,
            case: |store| Box::pin(a_held_name(store)),
        },
        MissingGuard {
            what: "S4: only the owner releases",
            changes: common.release_owner,
            case: |store| Box::pin(a_release_by_another(store)),
        },
        MissingGuard {
            what: "S5: a renewal does not bring an expired lease back",
            changes: common.renew_expired,
            case: |store| Box::pin(a_late_renewal(store)),
        },
        MissingGuard {
            what: "S6: an abandoned owner finds its tombstone",
            changes: common.abandoned,
            case: |store| Box::pin(an_abandoned_owner(store)),
        },
        MissingGuard {
            what: "S6: to abandon an owner does not end what it keeps",
            changes: common.abandon_kept,
            case: |store| Box::pin(kept_of_an_abandoned(store)),
        },
        MissingGuard {
            what: "S1: a reader that joins does not shorten the lease of the others",
            changes: common.join_expires,
            case: |store| Box::pin(readers::beside_a_longer_lease(store)),
        },
        MissingGuard {
            what: "S1: a reader that joins leaves the others in",
            changes: common.join_others,
            case: |store| Box::pin(readers::beside_others(store)),
        },
        MissingGuard {
            what: "S2: the readers' token is above the last writer's",
            changes: common.join_above,
            case: |store| Box::pin(readers::after_the_last_token(store)),
        },
        MissingGuard {
            what: "S5: a reader that left renews nothing",
            changes: common.renew_reader,
            case: |store| Box::pin(readers::a_renewal_by_one_that_left(store)),
        },
        MissingGuard {
            what: "S5: a reader does not bring an expired lease back",
            changes: common.renew_readers_expired,
            case: |store| Box::pin(readers::a_late_renewal(store)),
        },
        MissingGuard {
            what: "S6: an abandoned reader finds its tombstone",
            changes: common.join_abandoned,
            case: |store| Box::pin(readers::an_abandoned_one(store)),
        },
        MissingGuard {
            what: "L3: no reader passes a waiting writer",
            changes: common.join_barging,
            case: |store| Box::pin(readers::past_a_waiting_writer(store)),
        },
        MissingGuard {
            what: "S7: only the holder writes the record",
            changes: common.record_owner,
            case: |store| Box::pin(record_cases::a_write_of_a_former_holder(store)),
        },
        MissingGuard {
            what: "S7: what was released, and is kept, writes no record",
            changes: common.record_kept,
            case: |store| Box::pin(record_cases::a_write_after_a_release_that_keeps(store)),
        },
        MissingGuard {
            what: "S7: what has expired writes no record",
            changes: common.record_expired,
            case: |store| Box::pin(record_cases::a_write_after_the_lease(store)),
        },
        MissingGuard {
            what: "S7: a late write replaces no later one",
            changes: common.record_number,
            case: |store| Box::pin(record_cases::a_late_write(store)),
        },
        MissingGuard {
            what: "S7: a sweep leaves records that are to be kept",
            changes: common.record_time,
            case: |store| Box::pin(record_cases::a_record_over_a_sweep(store)),
        },
    ]
}
