//! Guards of the script that opens a store without a wait. In each case something stands against
//! that, so the next attempt must be refused.

use std::time::Duration;

use verification::missing_guards::{Verdict, redis::text};

use super::{requests::refused_with, server::Server};

/// A record of an earlier run, on a server that has been up for long.
async fn old_record(server: &mut Server) {
    server.note("run", &"e".repeat(40)).await;
    up_for_long(server).await;
}

async fn up_for_long(server: &mut Server) {
    server.clock.step(40.0).unwrap();
    let long = async {
        // INFO shows the time of the server's last tick.
        while field(server, "server", "uptime_in_seconds").await.parse::<u64>().unwrap() < 40 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), long).await.unwrap();
}

async fn field(server: &mut Server, section: &str, name: &str) -> String {
    let info = text(&server.say(&["INFO", section]).await);
    let lines = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    lines.unwrap().trim().to_owned()
}

/// The next attempt is refused.
async fn waits(server: &mut Server) -> Verdict {
    refused_with(server.taken("b").await)
}

pub(super) async fn a_new_role_in_this_run(server: &mut Server) -> Verdict {
    server.note("replid", &"f".repeat(40)).await;
    up_for_long(server).await;
    server.open_store("").await;
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn an_open_of_another_run(server: &mut Server) -> Verdict {
    old_record(server).await;
    server.identity[0] = "f".repeat(40);
    server.open_store("").await;
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn a_new_server(server: &mut Server) -> Verdict {
    server.note("run", &"e".repeat(40)).await;
    server.open_store("").await;
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn a_former_replica(server: &mut Server) -> Verdict {
    server.say(&["REPLICAOF", "127.0.0.1", "1"]).await;
    server.say(&["REPLICAOF", "NO", "ONE"]).await;
    server.identity[1] = field(server, "replication", "master_replid").await;
    old_record(server).await;
    server.open_store("").await;
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn the_candidate_of_another(server: &mut Server) -> Verdict {
    old_record(server).await;
    server.open_store("").await;
    let (run, now) = (server.identity[0].clone(), server.now().await);
    server.note("candidate", &format!("{run}other {now}")).await;
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn an_old_candidate(server: &mut Server) -> Verdict {
    old_record(server).await;
    server.open_store("").await;
    server.clock.step(2.0).unwrap();
    server.open_store("unknown").await;
    waits(server).await
}

pub(super) async fn a_known_witness(server: &mut Server) -> Verdict {
    old_record(server).await;
    server.open_store("").await;
    server.open_store("known").await;
    waits(server).await
}
