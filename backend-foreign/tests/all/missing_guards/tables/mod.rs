//! The statements on ShedLock's table.

mod cases;
mod stage;

use verification::{
    cases,
    missing_guards::{Case, Trial},
};

use self::{
    cases::*,
    stage::{Clocked, MYSQL, POSTGRES, Table},
};

fn of_both<const KIND: bool>() -> Vec<Case<Table<KIND>>> {
    cases![Table<KIND>:
        a_batch_beside_another_transaction, a_foreign_holder_of_the_row, two_abandoned_owners,
        a_token_after_a_loss, a_minimum_hold_by_another, a_late_minimum_hold,
        a_renewal_of_what_was_taken, a_late_raise, a_token_over_a_force, force_of_a_free_name,
        only_leasehold_locks_in_a_listing,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_postgres_is_missed() {
    let mut table = of_both::<POSTGRES>();
    table.extend(cases![Table<POSTGRES>:
        a_longer_renewal_by_another, an_abandoned_owner_has_an_answer,
        an_attempt_abandoned_while_it_waits]);
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/postgres")]);
    trial.on_clients(table).await;
    trial
        .on(cases![Clocked: a_renewal_that_waits_for_the_row, an_attempt_of_one_who_has_gone])
        .await;
    trial.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_mysql_is_missed() {
    let mut table = of_both::<MYSQL>();
    table.extend(cases![Table<MYSQL>: a_renewal_of_what_was_released, a_renewal_of_what_was_freed]);
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/mysql")]);
    trial.on_clients(table).await;
    trial.end();
}
