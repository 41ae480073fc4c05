//! Breaks each guard of the scripts once: see the markers there.

mod first_use;
mod queue;
mod readers;
mod records;
mod requests;
pub(crate) mod server;
mod short_ways;
#[path = "../../../src/scripts/text.rs"]
mod text;

use verification::{
    cases,
    missing_guards::{Case, Trial},
};

use self::{
    first_use::*, queue::*, readers::*, records::*, requests::*, server::Server, short_ways::*,
};

fn table() -> Vec<Case<Server>> {
    cases![Server:
        an_unfit_request(what), an_epoch_with_another(field), a_client_with_an_old_handshake,
        a_failover_that_went_unnoticed, a_repeated_release_in_another_version,
        another_version_is_refused, an_init_that_starts_a_wait(how),
        a_call_that_needs_no_longer_lease(call), a_stale_write,
        a_new_role_in_this_run, an_open_of_another_run, a_new_server, a_former_replica,
        the_candidate_of_another, an_old_candidate, a_known_witness,
        a_heartbeat_in_another_version, a_full_server, a_queue_that_is_about_to_end, an_entry_older_than_its_life,
        an_entry_that_is_gone, a_handoff_without_claim, a_handoff_after_a_restart(end), a_hand_over_after_a_restart,
        dead_entries, an_unclaimed_handoff, an_entry_with_a_floor,
        a_reader_past_a_writer, a_reader_whose_lease_is_prolonged(how), a_renewal_after_the_end, a_reader_that_died,
        a_long_lease_that_left, a_reader_behind_a_dead_writer,
        a_restart, a_restart_without_a_flush, a_server_that_was_a_replica,
        a_restart_that_nobody_has_noticed, an_init_after_a_loss,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_is_missed() {
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts")]);
    trial.on_clients(table()).await;
    trial.on(cases![BothWays: short_ways_do_what_long_ways_do]).await;
    trial.end();
}
