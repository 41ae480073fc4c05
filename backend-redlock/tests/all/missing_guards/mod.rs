//! Breaks each guard of the scripts once: see their markers. The rule of renewals, with its
//! markers, is a file of backend-redis.

mod node;
mod nodes;
mod readers;
mod releases;
mod short_ways;
mod votes;
mod waiting_readers;

use verification::{
    cases,
    missing_guards::{Case, Trial},
};

use self::{
    node::Node, nodes::*, readers::*, releases::*, short_ways::*, votes::*, waiting_readers::*,
};
use crate::support::Nodes;

/// Refusals of one node, where no other node and no client makes up for them.
fn on_one_node() -> Vec<Case<Node>> {
    cases![Node:
        an_epoch_with_another(field), a_late_request_in_another_version, a_late_request,
        a_clock_behind, a_record_to_write_ahead_of_the_others, a_clock_that_came_back(seen),
        a_clock_that_came_back_in_a_long_wait, an_owner_abandoned_twice, an_attempt_past_the_head,
        a_turn_far_ahead, a_late_repeat_that_is_taken_back, a_number_above_the_watermark,
        a_number_above_the_floor, a_proposal_far_ahead, a_batch_after_a_number_far_ahead(raised),
        a_late_clean_up(mode), a_release_with_one_waiting, a_batch_with_one_waiting,
        a_dead_entry(until), a_head_that_leaves, a_call_that_needs_no_longer_lease(call),
        one_reader_above_the_most, a_writer_after_a_reader, a_number_for_a_reader,
        a_release_by_an_owner_that_is_no_reader, room_of_a_dead_reader, a_renewal_after_the_end,
        a_reader_whose_lease_is_prolonged(how), a_reader_past_a_writer, a_reader_before_a_writer,
        a_reader_behind_a_dead_writer(until), two_readers_that_are_called,
        a_writer_behind_a_reader, a_writer_that_waits_for_a_reader,
        a_reader_that_is_called_and_leaves, a_writer_that_gives_up, one_that_leaves_the_most,
        one_that_leaves_another, a_reader_that_gives_up,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_is_missed() {
    let renewal = concat!(env!("CARGO_MANIFEST_DIR"), "/../backend-redis/src/scripts/renewal.lua");
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts"), renewal]);
    trial.on(on_one_node()).await;
    trial.on_clients(cases![Nodes: another_version_is_refused]).await;
    trial.on(cases![BothWays: short_ways_do_what_long_ways_do]).await;
    trial.end();
}
