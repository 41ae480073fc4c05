//! Three nodes and their client, all of which lack the guard: what the whole store then does wrong.

use conformance_tests::kit::{Data, Proxy, Redis, RedisOptions, Server as _};

use super::super::{
    cases::{a_release_by_another, a_renewal_by_another, an_abandoned_owner},
    wire::{Guard, LONG, Stage, Verdict, first_use, granted, not_granted, open, request, try_all},
};

struct Quorum {
    servers: Vec<Redis>,
    proxies: Vec<Proxy>,
}

impl Quorum {
    fn url(&self) -> String {
        let hosts: Vec<_> = self.proxies.iter().map(|each| each.address().to_string()).collect();
        // A machine that is busy is not to look like nodes that are down, or whose clocks are off.
        let patient = "timeout=5s&node_timeout=2s&clock_bound=400ms";
        format!("redlock://{}?{patient}", hosts.join(","))
    }
}

#[async_trait::async_trait]
impl Stage for Quorum {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let servers = Redis::start_many(3, RedisOptions::new()).await.unwrap();
        let mut proxies = Vec::new();
        for server in &servers {
            proxies.push(Proxy::altering(server.address(), texts).await.unwrap());
        }
        Self { servers, proxies }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxies[0]
    }

    /// Of a majority, whichever that is.
    fn altered(&self) -> u64 {
        self.proxies.iter().map(|proxy| proxy.counters().altered).sum()
    }
}

const GUARDS: &[Guard<Quorum>] = &[
    Guard {
        what: "section 4: no node votes after a restart",
        texts: &[(
            "local mark, refusal = gate(now)\nif not mark",
            "local mark, refusal = 1\nif not mark",
        )],
        case: |stage| Box::pin(an_attempt_after_a_restart(stage)),
    },
    Guard {
        what: "S4: no node frees another's lock",
        texts: &[("string.sub(record, 1, 32) == ARGV[1] and string.match", "string.match")],
        case: |stage| Box::pin(a_release_by_another(stage.url())),
    },
    Guard {
        what: "S4: no node renews another's lock",
        texts: &[("if record and string.sub(record, 1, 32) ~= owner then", "if false then")],
        case: |stage| Box::pin(a_renewal_by_another(stage.url())),
    },
    Guard {
        what: "S6: no node gives an abandoned owner anything",
        texts: &[("KEYS[4], KEYS[5]) == 0)", "KEYS[4]) == 0)")],
        case: |stage| Box::pin(an_abandoned_owner(stage.url())),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_the_nodes_is_missed_by_the_quorum() {
    try_all(GUARDS).await;
}

/// All of them at once, so that every lock is gone.
async fn an_attempt_after_a_restart(stage: &mut Quorum) -> Verdict {
    let store = first_use(&stage.url()).await;
    granted(&*store, &request("a", LONG)).await?;
    for server in &mut stage.servers {
        server.restart(Data::Lose).await.unwrap();
    }
    not_granted(&*open(&stage.url()).await, &request("b", LONG)).await
}
