//! The records of names, which both stores keep.

use std::{sync::Arc, time::Duration};

use crate::support::{
    faulty::{Fault, Faulty},
    two::{Two, granted, name, request},
};
use backend_migration::{Migration, Phase};
use lock_core::{
    Backend, ErrorKind, Grant, Init, RecordRead, RecordWrite, ReleaseOptions, StoreTime,
    WriteOutcome,
};

const KEEP: Duration = Duration::from_secs(3_600);
const PHASES: [Phase; 3] = [Phase::Old, Phase::Both, Phase::New];

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
