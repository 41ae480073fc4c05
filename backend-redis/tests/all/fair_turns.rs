//! Several clients, each with several tasks, want one name. No task starves, and queue entries are
//! served in the order in which they were made. (Each client has its own connection and one queue
//! entry, like a process.)

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use lock_core::LockClient;

use crate::support::{connect, name, queued, server, url};

const CLIENTS: usize = 8;
const TASKS: usize = 4;
const TURNS: usize = 16;
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_with_four_tasks_take_turns_in_order() {
    let server = server().await;
    // The lock is held until all wait, so that all compete from the first turn on.
    let first = LockClient::new(connect(&url(&server)).await);
    let guard = first.lock(name("a")).acquire().await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let client = LockClient::new(connect(&url(&server)).await);
        for task in 0..TASKS {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let mut turns = Vec::new();
                for _ in 0..TURNS {
                    let guard = client.lock(name("a")).wait(SOON).acquire().await.unwrap();
                    turns.push((guard.token(), number, task));
                    guard.release().await.unwrap();
                }
                turns
            }));
        }
    }
    queued(&**first.backend(), "a", CLIENTS as u64).await;
    guard.release().await.unwrap();
    let mut order: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    order.sort_unstable();
    // The part in which all compete: no task has finished yet.
    let all = &order[..order.len() * 3 / 4];

    let mut shares = HashMap::<_, u32>::new();
    for (_, client, task) in all {
        *shares.entry((client, task)).or_default() += 1;
    }
    let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
    assert_eq!(shares.len(), CLIENTS * TASKS, "a task starved: {shares:?}");
    assert!(most <= &(2 * least), "{shares:?}");

    // After a grant a client goes to the end. So between two turns of one client, each other client
    // has one. On a loaded machine an entry may come a little late, and lets another pass once.
    for client in 0..CLIENTS {
        let own: Vec<_> = (0..all.len()).filter(|at| all[*at].1 == client).collect();
        for pair in own.windows(2) {
            let between = &all[pair[0] + 1..pair[1]];
            for other in 0..CLIENTS {
                let turns = between.iter().filter(|(_, who, _)| *who == other).count();
                assert!(turns <= 2, "{other} overtook {client}: {between:?}");
            }
        }
    }
}
