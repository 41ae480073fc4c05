//! Sentinels, and faults of their master.

use std::time::Duration;

use servers::{RedisOptions, Sentinels, Server as _};

use super::{connect, first_use};

const DOWN_AFTER: Duration = Duration::from_secs(3);

/// The URL of a group, reached through these sentinels.
pub(crate) fn url_through(sentinels: &[std::net::SocketAddr], options: &str) -> String {
    let hosts: Vec<_> = sentinels.iter().map(ToString::to_string).collect();
    format!("redis+sentinel://{}/{}?{options}", hosts.join(","), Sentinels::MASTER)
}

pub(crate) fn url(group: &Sentinels, options: &str) -> String {
    url_through(&group.endpoints(), options)
}

/// Two replicas. The store grants at once.
pub(crate) async fn group(options: RedisOptions, url_options: &str) -> Sentinels {
    // On a busy machine half a second is not enough: sentinels then replace the new master at once.
    let group = Sentinels::start_patient(2, options, DOWN_AFTER).await.unwrap();
    first_use(&*connect(&url(&group, url_options)).await).await;
    group
}

/// Pauses the replicas of the master `old`, so that the next writes are lost with the master.
pub(crate) async fn deafen_replicas(group: &Sentinels, old: usize) {
    let servers = group.servers();
    for (_, replica) in servers.iter().enumerate().filter(|(at, _)| *at != old) {
        replica.pause().unwrap();
    }
    // Otherwise they would later read what waits in their sockets.
    let killed = servers[old].cli(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    assert_eq!(killed, (servers.len() - 1).to_string(), "replicas were not in touch");
}

/// Kills the master, and resumes its replicas. Returns the new master.
pub(crate) async fn fail_over(group: &mut Sentinels, old: usize) -> usize {
    group.server_mut(old).kill().unwrap();
    for (at, replica) in group.servers().iter().enumerate() {
        if at != old {
            replica.resume().unwrap();
        }
    }
    group.failed_over(old).await.unwrap()
}
