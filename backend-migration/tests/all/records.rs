//! The records of processes and of names.

use std::{sync::Arc, time::Duration};

use backend_migration::{Fleet, Migration, Phase};
use lock_core::{
    Backend, Env as _, ErrorKind, FencingToken, Grant, Init, LockClient, LockName, Memory, OwnerId,
    OwnerLabel, RecordRead, RecordWrite, ReleaseOptions, Request, StoreTime, SystemEnv,
    WriteOutcome, drift_margin,
};

use crate::support::{
    faulty::{Fault, Faulty},
    two::{Two, granted, name, request},
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

const KEEP: Duration = Duration::from_secs(3_600);

/// The first store in the order of acquisition is the old one, or the new one.
fn stores(old_is_first: bool) -> [Arc<Faulty>; 2] {
    let identities = if old_is_first { ["a", "b"] } else { ["b", "a"] };
    identities.map(|identity| Arc::new(Faulty::named(identity)))
}

async fn enter(stores: &[Arc<Faulty>; 2], phase: Phase) -> Migration {
    let [old, new] = stores.clone().map(|store| store as Arc<dyn Backend>);
    Migration::new(old, new, phase).await.unwrap()
}

fn write(value: &str, number: u64) -> RecordWrite {
    RecordWrite::new(value, KEEP).unwrap().with_number(number)
}

async fn written(store: &dyn Backend, grant: &Grant, value: &str, number: u64) {
    let outcome = store.write_record(grant, &write(value, number)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
}

async fn read(store: &dyn Backend) -> RecordRead {
    store.read_record(&name()).await.unwrap()
}

fn value(read: &RecordRead) -> Option<&str> {
    read.record.as_ref().map(|record| std::str::from_utf8(&record.value).unwrap())
}

/// The whole way and back, with a plain URL at both ends.
#[tokio::test]
async fn each_phase_reads_what_the_one_before_has_written() {
    for old_is_first in [true, false] {
        let stores = stores(old_is_first);
        let before = granted(&*stores[0], 1).await;
        written(&*stores[0], &before, "plain", 1).await;
        stores[0].release(&before, ReleaseOptions::default()).await.unwrap();
        let mut last = ("plain".to_owned(), before.token);
        for (step, phase) in [0, 1, 2, 1, 0, 1, 2].map(|at| PHASES[at]).into_iter().enumerate() {
            let migration = enter(&stores, phase).await;
            let found = read(&migration).await;
            assert_eq!(value(&found), Some(&*last.0), "step {step}, {phase}");
            let grant = granted(&migration, 2).await;
            assert!(grant.token > last.1);
            last = (format!("step {step}"), grant.token);
            written(&migration, &grant, &last.0, 1).await;
            let found = read(&migration).await;
            assert_eq!(value(&found), Some(&*last.0));
            assert_eq!(found.record.unwrap().token, grant.token);
            assert_eq!(found.complete_since, StoreTime::EVER);
            migration.release(&grant, ReleaseOptions::default()).await.unwrap();
            migration.close().await;
        }
        assert_eq!(value(&read(&*stores[1]).await), Some(&*last.0));
    }
}

#[tokio::test]
async fn phase_both_writes_to_both_with_its_token() {
    let two = Two::new().await;
    two.second_is_ahead().await;
    let grant = granted(&*two.both, 1).await;
    written(&*two.both, &grant, "it", 1).await;
    for store in &two.stores {
        let found = read(&**store).await;
        assert_eq!(value(&found), Some("it"));
        assert_eq!(found.record.unwrap().token, grant.token);
    }
}

/// Nobody is told that the record is written as long as it is in one store only.
#[tokio::test]
async fn phase_both_has_written_when_both_stores_have() {
    let faults = [
        (0, Fault::Refused(ErrorKind::Unavailable), ErrorKind::Unavailable, [None, None]),
        (0, Fault::AnswerLost, ErrorKind::Timeout, [Some("it"), None]),
        (1, Fault::Refused(ErrorKind::Unavailable), ErrorKind::OutcomeUnknown, [Some("it"), None]),
        (1, Fault::AnswerLost, ErrorKind::Timeout, [Some("it"), Some("it")]),
    ];
    for (side, fault, kind, kept) in faults {
        let two = Two::new().await;
        let grant = granted(&*two.both, 1).await;
        two.stores[side].next("write_record", fault);
        let error = two.both.write_record(&grant, &write("it", 1)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{side} {fault:?}: {error}");
        for (store, kept) in two.stores.iter().zip(kept) {
            assert_eq!(value(&read(&**store).await), kept, "{side} {fault:?}");
        }
        // The client repeats it.
        written(&*two.both, &grant, "it", 1).await;
        for store in &two.stores {
            assert_eq!(value(&read(&**store).await), Some("it"));
        }
    }
    for side in 0..2 {
        let two = Two::new().await;
        let grant = granted(&*two.both, 1).await;
        two.stores[side].force_release(&name()).await.unwrap();
        let answer = two.both.write_record(&grant, &write("it", 1)).await;
        if side == 0 {
            assert_eq!(answer.unwrap(), WriteOutcome::NotHeld);
        } else {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        }
        assert_eq!(value(&read(&*two.stores[1]).await), None);
    }
}

/// The holder has died between its writes to the two stores. What the next process reads, all later
/// ones read, in whichever phase.
#[tokio::test]
async fn of_a_write_to_one_store_all_phases_read_the_same() {
    for old_is_first in [true, false] {
        let stores = stores(old_is_first);
        let (first, second) = if old_is_first { (0, 1) } else { (1, 0) };
        let both = enter(&stores, Phase::Both).await;
        let grant = granted(&both, 1).await;
        written(&both, &grant, "one", 1).await;
        stores[second].next("write_record", Fault::Refused(ErrorKind::Unavailable));
        both.write_record(&grant, &write("two", 2)).await.unwrap_err();
        assert_eq!(value(&read(&*stores[first]).await), Some("two"));
        assert_eq!(value(&read(&*stores[second]).await), Some("one"));
        both.close().await;
        for phase in PHASES {
            let migration = enter(&stores, phase).await;
            assert_eq!(value(&read(&migration).await), Some("two"), "{phase} {old_is_first}");
            migration.close().await;
        }
    }
}

#[tokio::test]
async fn without_the_other_store_an_end_phase_does_not_know_what_was_written() {
    for (phase, own) in [(Phase::Old, 0), (Phase::New, 1)] {
        let stores = stores(true);
        let migration = enter(&stores, phase).await;
        let grant = granted(&migration, 1).await;
        stores[1 - own].set_down(true);
        written(&migration, &grant, "it", 1).await;
        let found = read(&migration).await;
        assert_eq!(value(&found), Some("it"));
        assert_eq!(found.complete_since, found.now, "{phase}");
        stores[1 - own].set_down(false);
        assert_eq!(read(&migration).await.complete_since, StoreTime::EVER, "{phase}");
        // A store without records has none to tell of.
        stores[1 - own].next("read_record", Fault::Refused(ErrorKind::Unsupported));
        assert_eq!(read(&migration).await.complete_since, StoreTime::EVER, "{phase}");
        migration.close().await;
    }
}

#[tokio::test]
async fn a_loss_in_either_store_is_seen_until_an_operator_denies_it() {
    for phase in PHASES {
        for side in 0..2 {
            let stores = stores(true);
            let migration = enter(&stores, phase).await;
            stores[side].lose_records();
            let found = read(&migration).await;
            assert_eq!(found.complete_since, found.now, "{phase} {side}");
            migration.init(&Init::new().with_records_complete(true)).await.unwrap();
            assert_eq!(read(&migration).await.complete_since, StoreTime::EVER, "{phase} {side}");
            migration.close().await;
        }
    }
}

/// It may be two phases away from a process that holds the same lock in the other store.
#[tokio::test]
async fn a_process_without_its_own_record_writes_nothing() {
    for (phase, own) in [(Phase::Old, 0), (Phase::New, 1)] {
        let stores = stores(true);
        let lease = Duration::from_secs(3);
        for store in &stores {
            store.memory.init(&Init::new().with_longest_lease(lease)).await.unwrap();
        }
        let migration = enter(&stores, phase).await;
        let mut request = request(1);
        request.lease = lease;
        let grant = migration.try_acquire(&request).await.unwrap().granted().unwrap();
        let process = stores[own].memory.list(None).await.unwrap().locks;
        let process = process.into_iter().find(|lock| lock.name != name()).unwrap();
        stores[own].next("acquire", Fault::Held);
        stores[own].memory.force_release(&process.name).await.unwrap();
        // It is being written again, so the loss has been noticed.
        while !stores[own].spent() {
            tokio::task::yield_now().await;
        }
        let error = migration.write_record(&grant, &write("it", 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{phase}: {error}");
        assert_eq!(value(&read(&*stores[own]).await), None, "{phase}");
        stores[own].let_go();
        migration.close().await;
    }
}
