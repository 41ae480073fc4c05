//! The suite over the store of this example.

use std::{process::ExitCode, sync::Arc};

use conformance_tests::{Harness, SetUpError, Store};
use leasehold::backend::{Backend, Error, async_trait};
use own_backend::MapStore;

struct InAMap(MapStore);

#[async_trait]
impl Harness for InAMap {
    fn name(&self) -> &'static str {
        "map"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(self.0.clone()))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    /// The store has no queue, no push and no shared locks, cannot raise a token, and is for one process.
    fn skips(&self) -> &'static [&'static str] {
        &[
            "waiters_are_served_in_order",
            "no_attempt_barges_past_a_waiter",
            "a_withdrawn_entry_is_passed_over",
            "a_dead_entry_is_passed_over_in_time",
            "a_request_that_a_release_carries_goes_to_the_end",
            "a_withdrawal_gives_back_what_was_granted",
            "a_waiter_further_back_polls_less_often",
            "a_release_does_not_wake_every_waiter",
            "a_raised_token_is_exceeded_by_the_next",
            "a_token_is_not_raised_by_who_does_not_hold",
            "a_killed_holders_lock_is_free_within_its_lease",
            "a_paused_holder_learns_of_its_loss_and_is_fenced",
            "processes_count_without_losing_an_update",
            "processes_share_the_permits_of_a_semaphore",
            "a_killed_holders_permit_is_free_within_its_lease",
            "a_client_killed_at_the_door_keeps_nobody_from_a_free_slot",
            "all_locks_of_a_killed_holder_are_free_within_their_lease",
            "a_paused_holder_of_a_permit_learns_of_its_loss",
            "a_paused_holder_of_all_learns_of_its_loss",
            "an_election_outlives_its_leaders",
            "shared",
        ]
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(InAMap(MapStore::default()))])
}
