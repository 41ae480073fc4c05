//! What waiting for many names costs a MySQL server.

use crate::support::looks;
use crate::support::mariadb::{BOTH, counted, made, open, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_serves_all_names_that_a_client_waits_for() {
    let server = start().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let count = async || counted(&server, "Com_stmt_execute").await;
        looks::many_names(holder, store, count).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_served_when_those_before_it_have_gone() {
    let server = start().await;
    for strategy in BOTH {
        looks::the_first_goes(made(&server, strategy).await, open(&server, strategy).await).await;
    }
}
