//! What the next client of a plain Redis meets after each fault, while a lock is held and while
//! none is: the table in docs/fault-matrix.md.

use lock_core::{Attempt, Backend, Env as _, Grant, ReleaseOptions, Renewal, SystemEnv};
use servers::{Clock, Data, Redis, RedisOptions, Server as _};

use crate::{
    first_use::{DEL, LEASE, WHOLE, cli, held, put_back, server_up_for, step},
    support::{connect, replica_of, request, url},
};

const PAGE: &str = include_str!("../../../docs/fault-matrix.md");
const AT_ONCE: &str = "at once";
const WAITS: &str = "after a longest lease";
const FROM_START: &str = "a longest lease after the restart";

/// The faults, as the table names them.
const FAULTS: [&str; 8] = [
    "nothing",
    "`FLUSHALL`",
    "`DEL` of the epoch record",
    "`SCRIPT FLUSH`",
    "`SCRIPT FLUSH`, and `FLUSHALL` when a client has looked again",
    "a restart with an old copy of the data",
    "such a restart, and then a longest lease",
    "the promotion of a replica",
];

/// A Redis whose first lock was granted at once, and the client of that lock if it still has it.
struct Stage {
    server: Redis,
    clock: Clock,
    holder: Option<(std::sync::Arc<dyn Backend>, Grant)>,
    /// The server that takes the place of the first.
    promoted: Option<Redis>,
}

impl Stage {
    async fn new(hold: bool) -> Self {
        let (server, clock, store, grant) = held().await;
        let holder = if hold {
            Some((store, grant))
        } else {
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
            store.close().await;
            None
        };
        Self { server, clock, holder, promoted: None }
    }

    async fn befall(&mut self, fault: &str) {
        match FAULTS.iter().position(|it| *it == fault).unwrap() {
            0 => {}
            1 => cli(&self.server, "FLUSHALL").await,
            2 => cli(&self.server, DEL).await,
            3 => cli(&self.server, "SCRIPT FLUSH").await,
            4 => {
                cli(&self.server, "SCRIPT FLUSH").await;
                let looks = connect(&url(&self.server)).await;
                put_back(&self.server).await;
                looks.close().await;
                cli(&self.server, "FLUSHALL").await;
            }
            5 => self.restart().await,
            6 => {
                self.restart().await;
                step(&self.server, &self.clock, 40.0).await;
            }
            _ => {
                let options = RedisOptions::new().clock(&self.clock);
                let replica = replica_of(&self.server, options).await;
                cli(&replica, "REPLICAOF NO ONE").await;
                // It has been up for long enough, and was another's replica.
                step(&replica, &self.clock, 40.0).await;
                self.promoted = Some(replica);
            }
        }
    }

    /// Restarts the server with a copy of now. The client of a lock renews what the copy has.
    async fn restart(&mut self) {
        cli(&self.server, "SAVE").await;
        self.server.restart(Data::Keep).await.unwrap();
        let Some((store, grant)) = &self.holder else { return };
        loop {
            match &store.renew(&[grant], SystemEnv.now()).await[..] {
                [Renewal::Renewed { .. }] => return,
                [Renewal::Unknown(error)] => assert!(error.is_retryable(), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// When the next client gets a free lock. It never gets one that is held.
    async fn next(&self) -> &'static str {
        let store = connect(&url(self.promoted.as_ref().unwrap_or(&self.server))).await;
        if self.holder.is_some() {
            let answer = store.try_acquire(&request("a", LEASE)).await.unwrap();
            assert!(answer.granted().is_none(), "two holders");
        }
        match store.try_acquire(&request("another", LEASE)).await.unwrap() {
            Attempt::Granted(_) => AT_ONCE,
            Attempt::Quarantined(told) if told.why.contains("started less than") => FROM_START,
            Attempt::Quarantined(told) if told.remaining > WHOLE => WAITS,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_ends_as_the_table_says() {
    let mut rows = Vec::new();
    for fault in FAULTS {
        let mut row = format!("| {fault} |");
        for hold in [true, false] {
            let mut stage = Stage::new(hold).await;
            stage.befall(fault).await;
            row += &format!(" {} |", stage.next().await);
        }
        println!("{row}");
        rows.push(row);
    }
    let table = PAGE.split("<!-- first use -->").nth(1).unwrap();
    let told: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(told, rows);
}

#[tokio::test]
async fn a_look_says_that_the_next_client_would_wait() {
    let (server, _clock, store, _grant) = held().await;
    assert!(store.quarantine().await.unwrap().is_none());
    cli(&server, "FLUSHALL").await;
    let looked = store.quarantine().await.unwrap().unwrap();
    assert!(looked.remaining > WHOLE && looked.why.contains("next one"), "{looked:?}");
    let (unused, _clock) = server_up_for(40.0).await;
    assert!(connect(&url(&unused)).await.quarantine().await.unwrap().is_none());
    assert_eq!(unused.cli(&["DBSIZE"]).await.unwrap(), "0");
}
