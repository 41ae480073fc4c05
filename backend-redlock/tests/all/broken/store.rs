//! Three nodes and their client, all of which lack the guard: what the whole store then does wrong.

use std::sync::Arc;

use conformance_tests::{
    broken::{
        Broken, Clients, Setup, Verdict,
        cases::{
            LONG, a_release_by_another, a_renewal_by_another, an_abandoned_owner, first_use,
            granted, not_granted, request,
        },
    },
    kit::{
        Change::{self, LeaveOut, Replace},
        Data, Proxy, Redis, RedisOptions, Server as _,
    },
};
use lock_core::Backend;

use crate::support::PATIENT;

pub(super) struct Quorum {
    servers: Vec<Redis>,
    proxies: Vec<Proxy>,
}

#[async_trait::async_trait]
impl Setup for Quorum {
    async fn start(changes: &[Change<'_>]) -> Self {
        let servers = Redis::start_many(3, RedisOptions::new()).await.unwrap();
        let mut proxies = Vec::new();
        for server in &servers {
            proxies.push(Proxy::changing(server.address(), changes).await.unwrap());
        }
        Self { servers, proxies }
    }

    /// On all nodes together.
    fn altered(&self) -> u64 {
        self.proxies.iter().map(|proxy| proxy.counters().altered).sum()
    }
}

#[async_trait::async_trait]
impl Clients for Quorum {
    async fn open(&self) -> Arc<dyn Backend> {
        let hosts: Vec<_> = self.proxies.iter().map(|each| each.address().to_string()).collect();
        backend_redlock::connect(&format!("redlock://{}?{PATIENT}", hosts.join(","))).await.unwrap()
    }
}

pub(super) const VARIANTS: &[Broken<Quorum>] = &[
    Broken {
        what: "S1: no node votes after a restart",
        changes: &[Replace("gate", "local mark, refusal = 1")],
        case: |stores| Box::pin(an_attempt_after_a_restart(stores)),
    },
    Broken {
        what: "S4: no node frees another's lock",
        changes: &[LeaveOut("short_owner")],
        case: |stores| Box::pin(a_release_by_another(stores)),
    },
    Broken {
        what: "S4: no node renews another's lock",
        changes: &[Replace("renew_owner", "elseif false then")],
        case: |stores| Box::pin(a_renewal_by_another(stores)),
    },
    Broken {
        what: "S6: no node gives an abandoned owner anything",
        changes: &[LeaveOut("short_crowd")],
        case: |stores| Box::pin(an_abandoned_owner(stores)),
    },
];

/// All of them at once, so that every lock is gone.
async fn an_attempt_after_a_restart(stores: &mut Quorum) -> Verdict {
    let store = first_use(stores).await;
    granted(&*store, &request("a", LONG)).await?;
    for server in &mut stores.servers {
        server.restart(Data::Lose).await.unwrap();
    }
    not_granted(&*stores.open().await, &request("b", LONG)).await
}
