//! The phases of several processes: which of them may be active at the same time.

use std::{sync::Arc, time::Duration};

use backend_migration::{Fleet, Migration, Phase};
use lock_core::{
    Backend, Env as _, ErrorKind, FencingToken, LockClient, LockName, Memory, OwnerId, OwnerLabel,
    ReleaseOptions, Request, SystemEnv, drift_margin,
};

const LEASE: Duration = Duration::from_secs(10);
const PHASES: [Phase; 3] = [Phase::Old, Phase::Both, Phase::New];

async fn open(old: &Memory, new: &Memory, phase: Phase) -> Result<Migration, lock_core::Error> {
    let [old, new] = [old, new].map(|store| Arc::new(store.clone()) as Arc<dyn Backend>);
    let label = OwnerLabel::new(format!("process in {phase}")).unwrap();
    Migration::with_env(old, new, phase, label, Arc::new(SystemEnv)).await
}

async fn survey(old: &Memory, new: &Memory) -> Vec<Phase> {
    let fleet = Fleet::survey(old, new).await.unwrap();
    fleet.members.iter().map(|member| member.phase.unwrap()).collect()
}

async fn records(store: &Memory) -> Vec<LockName> {
    let page = store.list(None).await.unwrap();
    page.locks.into_iter().map(|lock| lock.name).collect()
}

#[tokio::test]
async fn neighbours_run_at_the_same_time_and_processes_two_phases_away_are_refused() {
    for one in PHASES {
        for two in PHASES {
            let (old, new) = (Memory::new(), Memory::new());
            let first = open(&old, &new, one).await.unwrap();
            let second = open(&old, &new, two).await;
            let ends = one != two && one != Phase::Both && two != Phase::Both;
            match second {
                Err(error) => {
                    assert!(ends, "{one} {two}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Config);
                    let named = format!("process in {one}");
                    assert!(error.to_string().contains(&named), "{error}");
                    let left = survey(&old, &new).await;
                    assert_eq!(left, [one], "the refused process leaves no record");
                }
                Ok(second) => {
                    assert!(!ends, "{one} beside {two}");
                    let mut active = [one, two];
                    active.sort();
                    assert_eq!(survey(&old, &new).await, active);
                    // With the roles exchanged, a migration back sees the same processes.
                    let back = Fleet::survey(&new, &old).await.unwrap();
                    assert_eq!(back.members.len(), 2);
                    second.close().await;
                    assert_eq!(survey(&old, &new).await, [one]);
                }
            }
            first.close().await;
            assert!(records(&old).await.is_empty() && records(&new).await.is_empty());
        }
    }
}

#[tokio::test]
async fn records_are_in_both_stores_and_in_no_listing_of_locks() {
    let (old, new) = (Memory::new(), Memory::new());
    for phase in PHASES {
        let migration = open(&old, &new, phase).await.unwrap();
        assert_eq!(records(&old).await.len(), 1, "{phase}");
        assert_eq!(records(&old).await, records(&new).await, "{phase}");
        assert!(migration.list(None).await.unwrap().locks.is_empty());
        migration.close().await;
    }
}

#[tokio::test]
async fn a_dropped_migration_ends_its_record() {
    let (old, new) = (Memory::new(), Memory::new());
    drop(open(&old, &new, Phase::Old).await.unwrap());
    while !(records(&old).await.is_empty() && records(&new).await.is_empty()) {
        tokio::task::yield_now().await;
    }
    open(&old, &new, Phase::New).await.unwrap();
}

/// A process whose record is lost in the store that it uses stops acquiring and renewing, at the
/// latest when it no longer believes the record. The record is written again only if all other
/// processes are neighbours.
#[tokio::test]
async fn a_process_whose_record_is_lost_stops_until_it_is_written_again() {
    let (old, new) = (Memory::new(), Memory::new());
    for memory in [&old, &new] {
        let init = lock_core::Init::new().with_longest_lease(Duration::from_millis(300));
        memory.init(&init).await.unwrap();
    }
    let lease = Duration::from_millis(300);
    let client = LockClient::new(Arc::new(open(&old, &new, Phase::Old).await.unwrap()));
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    // Both stores lose the record, and another process enters the other end phase before it is
    // written again.
    let far = loop {
        for store in [&old, &new] {
            for record in records(store).await.into_iter().filter(|name| name.as_str() != "job") {
                store.force_release(&record).await.unwrap();
            }
        }
        if let Ok(far) = open(&old, &new, Phase::New).await {
            break far;
        }
    };
    // It learns of the loss when it renews the record, and then renews no lock.
    guard.lost().await;
    let error = client.lock("other").lease(lease).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("phase old"), "{error}");
    far.close().await;
    let again = client.lock("job").lease(lease).wait(Duration::from_secs(30)).acquire().await;
    again.unwrap().release().await.unwrap();
    client.close().await;
}

/// No lock is believed for longer than the record.
#[tokio::test]
async fn a_lease_is_believed_no_longer_than_the_record() {
    let (old, new) = (Memory::new(), Memory::new());
    let migration = open(&old, &new, Phase::Old).await.unwrap();
    let longest = migration.guarantees().longest_lease;
    let client = LockClient::new(Arc::new(migration));
    let guard = client.lock("job").lease(longest).acquire().await.unwrap();
    let fleet = Fleet::survey(&old, &new).await.unwrap();
    // By how much the lock is believed for a shorter time than the store keeps the record.
    let sooner = fleet.members[0].remaining - guard.remaining();
    assert!(sooner >= drift_margin(longest), "{sooner:?}");
    client.close().await;
}

/// Even a store whose clock is behind gives tokens above those of the other, for names that were
/// never locked in phase `Both`.
#[tokio::test]
async fn tokens_go_on_in_a_store_whose_clock_is_behind() {
    let (old, new) = (Memory::new(), Memory::new());
    let label = OwnerLabel::new("test").unwrap();
    let ahead = FencingToken::new(SystemEnv.wall_micros() + 5_000_000).unwrap();
    let request = |owner, name: &str| {
        let name = LockName::new(name).unwrap();
        Request::new(name, OwnerId::from_bits(owner), label.clone(), LEASE, SystemEnv.now())
    };
    // The old store's tokens are five seconds ahead, as if its clock were.
    let mut early = request(1, "early");
    early.floor = ahead;
    let first = old.try_acquire(&early).await.unwrap().granted().unwrap();
    old.release(&first, ReleaseOptions::default()).await.unwrap();
    let before = open(&old, &new, Phase::Old).await.unwrap();
    let last = before.try_acquire(&request(2, "job")).await.unwrap().granted().unwrap();
    assert!(last.token > ahead);
    before.release(&last, ReleaseOptions::default()).await.unwrap();
    before.close().await;
    let after = open(&old, &new, Phase::New).await.unwrap();
    let next = after.try_acquire(&request(3, "job")).await.unwrap().granted().unwrap();
    assert!(next.token > last.token, "{} after {}", next.token, last.token);
    after.close().await;
}

#[tokio::test]
async fn a_record_of_another_version_keeps_all_phases_out() {
    let (old, new) = (Memory::new(), Memory::new());
    let newer = LockClient::new(Arc::new(new.clone()));
    let name = LockName::new("leasehold migration v2 only 1 2").unwrap();
    let record = newer.lock(name).lease(LEASE).acquire().await.unwrap();
    let names_it = |error: lock_core::Error| {
        let line = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config, "{line}");
        assert!(line.contains("v2 only 1 2") && line.contains("upgrade leasehold"), "{line}");
    };
    for phase in PHASES {
        names_it(open(&old, &new, phase).await.unwrap_err());
        assert!(records(&old).await.is_empty() && records(&new).await.len() == 1);
    }
    names_it(Fleet::survey(&old, &new).await.unwrap_err());
    record.release().await.unwrap();
    open(&old, &new, Phase::Both).await.unwrap().close().await;
}
