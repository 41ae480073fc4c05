//! Breaks each guard of the scripts and of the statements on ShedLock's table once: see the markers
//! there.

mod cases;
mod server;
mod tables;

use verification::{cases, missing_guards::Trial};

use self::{cases::*, server::Shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_the_scripts_is_missed() {
    let table = cases![Shared:
        a_foreign_holder, an_attempt_in_the_quarantine, a_late_request,
        a_token_of_the_other_side, the_token_for_the_other_side, a_hash_that_ends,
        many_grants_in_a_row, a_foreign_client_in_a_listing, a_waiter_by_message,
        a_waiter_of_a_registry, a_waiter_by_signal, a_repeat_after_another_took_it,
        a_repeat_in_another_version, a_renewal_after_another_took_it,
        a_renewal_in_another_version, a_token_after_a_raise, force_on_other_data,
    ];
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/scripts")]);
    trial.on_clients(table).await;
    trial.end();
}
