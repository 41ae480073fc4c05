//! The stores of this project for the [`proof`](crate::proof), each with its own servers, its
//! faults, and what it withholds under them.

mod etcd;
mod faults;
mod fences;
mod mysql;
mod object_store;
pub mod pairs;
mod postgres;
mod record_counters;
mod redis;
mod redis_groups;
mod sqlite;
mod untried;
mod zookeeper;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use lock_core::{Backend, BoxFuture, Env as _, Error, Init, SystemEnv};

use self::untried::{
    CLIENT_FAULTS, IN_MEMORY, LOST_TREE, MEMBERS, NO_CLOCK, NO_COPY, NO_FAILOVER, NO_MEMBER,
    NO_SERVER, NO_TAIL, ON_ONE_SERVER, ONE_REQUEST, OPERATOR, UNREPORTED, UNTRIED_ON_JAVA,
};
use crate::proof::{
    Fault, FaultInjector, Guarantee, InQuick, Reason, StartedStore, SystemUnderTest,
    Untried::{As, NotApplicable},
    Withheld,
};
use conformance_tests::SetUpError;
use servers::{Proxy, S3};

/// By how much each flush of a slow disk is delayed.
const FLUSH: Duration = Duration::from_millis(100);

/// The limit for a store that does not serve yet. None comes near it on a quiet machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

const NO_STEP: Reason = Reason::Assumption("clock-does-not-step");

/// Opens any store of this project by its URL.
pub fn connect(url: String) -> BoxFuture<Result<Arc<dyn Backend>, Error>> {
    if url.starts_with("s3:") && url.contains("endpoint=http://127.0.0.1:") {
        let any = S3::CREDENTIALS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        return Box::pin(async move { leasehold::object_store::connect_with(&url, any).await });
    }
    Box::pin(leasehold::open(url))
}

type Begin = fn(Fault) -> BoxFuture<Result<StartedStore, SetUpError>>;

/// Every kind of store.
#[must_use]
pub fn all() -> Vec<SystemUnderTest> {
    let mut all = single();
    all.extend(groups());
    all
}

fn single() -> Vec<SystemUnderTest> {
    vec![
        Row::new("sqlite", |fault| Box::pin(sqlite::start(fault)))
            .quick(Fault::OF_CLIENTS)
            .untried(&NO_SERVER)
            .done(),
        Row::new("redis", |fault| Box::pin(redis::start(fault, "")))
            .quick(CLIENT_FAULTS)
            .quick(&[Fault::ServerPaused, Fault::ServerRestarted, Fault::DataLost])
            .quick(&[Fault::TailLost, Fault::FullDisk, Fault::ClockForward])
            .soak(&[Fault::SlowDisk, Fault::ClockBack])
            .breaks(Fault::ClockForward, Guarantee::Exclusion, NO_STEP)
            .untried(&[(Fault::Restored, As("tail lost"))])
            .untried(&MEMBERS)
            .done(),
        Row::new("redis, quarantine off", |fault| Box::pin(redis::start(fault, "&quarantine=off")))
            .quick(&[Fault::ServerRestarted, Fault::DataLost])
            .soak(&[Fault::TailLost])
            .breaks(Fault::DataLost, Guarantee::Exclusion, Reason::Unpromised)
            .breaks(Fault::TailLost, Guarantee::Exclusion, Reason::Unpromised)
            .rest(As("redis"))
            .done(),
        Row::new("etcd", |fault| Box::pin(etcd::start(fault, 1)))
            .quick(CLIENT_FAULTS)
            .quick(&[Fault::ServerPaused, Fault::ServerRestarted])
            .soak(&[Fault::Restored, Fault::SlowDisk, Fault::FullDisk])
            .untried(&[OPERATOR, NO_TAIL])
            .untried(&NO_CLOCK)
            .untried(&MEMBERS)
            .done(),
        Row::new("zookeeper", |fault| Box::pin(zookeeper::start(fault, 1)))
            .quick(&[Fault::ServerRestarted])
            .soak(CLIENT_FAULTS)
            .soak(&[Fault::ServerPaused])
            .untried(&[LOST_TREE, UNREPORTED, NO_TAIL])
            .untried(&UNTRIED_ON_JAVA)
            .untried(&MEMBERS)
            .done(),
        Row::new("postgres", |fault| Box::pin(postgres::start(fault)))
            .quick(CLIENT_FAULTS)
            .quick(&[Fault::ServerPaused, Fault::ServerRestarted, Fault::FailedOver])
            .soak(&[Fault::Restored, Fault::SlowDisk, Fault::FullDisk])
            .soak(&[Fault::ClockForward, Fault::ClockBack])
            .breaks(Fault::Restored, Guarantee::Exclusion, Reason::Assumption("no-cold-copy"))
            .breaks(Fault::ClockForward, Guarantee::Exclusion, Reason::Assumption("server-clock"))
            .untried(&[OPERATOR])
            .untried(&[(Fault::TailLost, NotApplicable("a crash empties the lock table"))])
            .untried(&but_failover())
            .done(),
        Row::new("mysql", |fault| Box::pin(mysql::start(fault, 1)))
            .quick(CLIENT_FAULTS)
            .quick(&[Fault::ServerPaused, Fault::ServerRestarted])
            .soak(&[Fault::Restored, Fault::SlowDisk, Fault::FullDisk])
            .soak(&[Fault::ClockForward, Fault::ClockBack])
            .breaks(Fault::Restored, Guarantee::Exclusion, Reason::Assumption("one-server"))
            .breaks(Fault::ClockForward, Guarantee::Exclusion, Reason::Assumption("server-clock"))
            .untried(&[OPERATOR, NO_TAIL])
            .untried(&[NO_FAILOVER])
            .untried(&but_failover())
            .done(),
        Row::new("mysql, flushed once a second", |fault| Box::pin(mysql::start(fault, 0)))
            .quick(&[Fault::ServerRestarted])
            .breaks(Fault::ServerRestarted, Guarantee::Exclusion, Reason::Unpromised)
            .rest(As("mysql"))
            .done(),
        Row::new("object-store", |_| Box::pin(object_store::start()))
            .soak(Fault::OF_CLIENTS)
            .soak(&[Fault::HalfCut, Fault::RequestsLost, Fault::Delayed, Fault::ServerPaused])
            .untried(&[ONE_REQUEST])
            .untried(&MEMBERS)
            .rest(IN_MEMORY)
            .done(),
    ]
}

fn groups() -> Vec<SystemUnderTest> {
    vec![
        Row::new("redis, sentinels", |fault| Box::pin(redis_groups::sentinels(fault)))
            .soak(CLIENT_FAULTS)
            .soak(&[Fault::FailedOver, Fault::ServerPaused, Fault::ServerRestarted])
            .soak(&[Fault::DataLost, Fault::ClockForward, Fault::ClockBack])
            .breaks(Fault::ClockForward, Guarantee::Exclusion, NO_STEP)
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .rest(ON_ONE_SERVER)
            .done(),
        Row::new("redis, cluster", |fault| Box::pin(redis_groups::cluster(fault)))
            .soak(CLIENT_FAULTS)
            .soak(&[Fault::FailedOver, Fault::ServerPaused, Fault::ServerRestarted])
            .soak(&[Fault::ClockForward, Fault::ClockBack])
            .breaks(Fault::ClockForward, Guarantee::Exclusion, NO_STEP)
            .untried(&[NO_MEMBER])
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .rest(ON_ONE_SERVER)
            .done(),
        Row::new("redlock", |fault| Box::pin(redis_groups::redlock(fault, 3)))
            .quick(Fault::OF_CLIENTS)
            .quick(&[Fault::ConnectionCut, Fault::HalfCut, Fault::Delayed])
            .quick(&[Fault::ServerPaused, Fault::ServerRestarted, Fault::DataLost])
            .soak(&[Fault::RequestsLost, Fault::TailLost, Fault::SlowDisk, Fault::FullDisk])
            .soak(&[Fault::ClockForward, Fault::ClockBack])
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .untried(&[NO_COPY, (Fault::FailedOver, NotApplicable("nobody leads"))])
            .done(),
        Row::new("redlock of five", |fault| Box::pin(redis_groups::redlock(fault, 5)))
            .soak(&[Fault::None, Fault::ClientKilled, Fault::ClientPaused])
            .soak(&[Fault::ConnectionCut, Fault::DataLost, Fault::ClockForward])
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .rest(As("redlock"))
            .done(),
        Row::new("etcd of three", |fault| Box::pin(etcd::start(fault, 3)))
            .quick(&[Fault::FailedOver])
            .soak(CLIENT_FAULTS)
            .soak(&[Fault::ServerPaused, Fault::ServerRestarted])
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .soak(&[Fault::Restored, Fault::SlowDisk])
            .rest(As("etcd"))
            .done(),
        Row::new("zookeeper of three", |fault| Box::pin(zookeeper::start(fault, 3)))
            .quick(&[Fault::FailedOver])
            .soak(CLIENT_FAULTS)
            .soak(&[Fault::ServerPaused, Fault::ServerRestarted, Fault::Restored])
            .soak(&[Fault::MemberKilled, Fault::MemberPaused, Fault::QuorumLost])
            .rest(As("zookeeper"))
            .done(),
    ]
}

fn but_failover() -> Vec<(Fault, crate::proof::Untried)> {
    MEMBERS.iter().copied().filter(|(fault, _)| *fault != Fault::FailedOver).collect()
}

/// Builds a [`SystemUnderTest`].
struct Row(SystemUnderTest);

impl Row {
    fn new(name: &str, start: Begin) -> Self {
        Self(SystemUnderTest {
            name: name.to_owned(),
            faults: Vec::new(),
            untried: Vec::new(),
            withheld: Vec::new(),
            start: Arc::new(start),
        })
    }

    /// Faults that both profiles try.
    fn quick(mut self, faults: &[Fault]) -> Self {
        self.0.faults.extend(faults.iter().map(|fault| (*fault, InQuick::Yes)));
        self
    }

    /// Faults that only the soak tries.
    fn soak(mut self, faults: &[Fault]) -> Self {
        self.0.faults.extend(faults.iter().map(|fault| (*fault, InQuick::No)));
        self
    }

    fn breaks(mut self, fault: Fault, guarantee: Guarantee, reason: Reason) -> Self {
        self.0.withheld.push(Withheld { fault, guarantee, reason });
        self
    }

    fn untried(mut self, untried: &[(Fault, crate::proof::Untried)]) -> Self {
        self.0.untried.extend_from_slice(untried);
        self
    }

    /// Gives this reason for all other faults.
    fn rest(mut self, why: crate::proof::Untried) -> Self {
        let named = |fault: Fault| {
            self.0.faults.iter().any(|(each, _)| *each == fault)
                || self.0.untried.iter().any(|(each, _)| *each == fault)
        };
        let rest: Vec<_> = Fault::ALL.iter().copied().filter(|fault| !named(*fault)).collect();
        self.0.untried.extend(rest.into_iter().map(|fault| (fault, why)));
        self
    }

    fn done(mut self) -> SystemUnderTest {
        self.0.faults.sort_unstable_by_key(|(fault, _)| *fault);
        self.0
    }
}

/// Makes the store at `url` grant at once. On a busy machine its servers may need a while until
/// they serve, such as a Redis whose replicas have to answer within a second.
async fn made(url: &str) -> Result<(), Error> {
    let make = async || {
        let store = connect(url.to_owned()).await?;
        let made = store.init(&Init::new().with_first_use(true)).await;
        store.close().await;
        made.map(drop)
    };
    let last = SystemEnv.now() + READY_WITHIN;
    loop {
        match make().await {
            Err(error) if error.is_retryable() && SystemEnv.now() < last => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            answer => return answer,
        }
    }
}

/// Starts a proxy in front of a server.
async fn behind_proxy(
    server: SocketAddr,
    injector: impl FaultInjector + 'static,
    url: impl Fn(SocketAddr) -> String,
) -> Result<StartedStore, SetUpError> {
    let proxy = Proxy::start(server).await?;
    Ok(StartedStore {
        proxies: Some((url(proxy.address()), vec![proxy])),
        injector: Some(Box::new(injector)),
        ..StartedStore::of_clients(url(server), ())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_tried_on_every_store_or_has_its_reason() {
        for subject in all() {
            for fault in Fault::ALL {
                let tried = subject.faults.iter().filter(|(each, _)| each == fault).count();
                let reasons = subject.untried.iter().filter(|(each, _)| each == fault).count();
                assert_eq!(tried + reasons, 1, "{}, {fault}", subject.name);
            }
            for withheld in &subject.withheld {
                let tried = subject.faults.iter().any(|(fault, _)| *fault == withheld.fault);
                assert!(tried, "{}: {withheld:?}", subject.name);
            }
        }
    }
}
