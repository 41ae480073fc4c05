//! What a process may do while its own record is valid, is lost, or cannot be written.
//!
//! Time is paused: it passes only while every task waits. So a busy machine ends no lease.

use std::{sync::Arc, time::Duration};

use crate::support::faulty::{Fault, Faulty};
use backend_migration::{Direction, Fleet, Migration, Phase};
use lock_core::{
    Backend, ClientOptions, Env, ErrorKind, Guard, Init, LockClient, LockName, Memory, OwnerLabel,
    TryAcquire, testing::TokioClock,
};

const LONG: Duration = Duration::from_secs(60);
/// Between two looks at what other tasks do.
const LOOK: Duration = Duration::from_millis(10);
const ENDS: [Phase; 2] = [Phase::Old, Phase::New];

/// Two stores, the old and the new one, and the clock of all.
struct Two([Arc<Faulty>; 2], Arc<dyn Env>);

impl Two {
    async fn new(longest: Duration) -> Self {
        let clock: Arc<dyn Env> = Arc::new(TokioClock::begin());
        let memories = [(); 2].map(|()| Memory::with_env(Arc::clone(&clock)));
        for memory in &memories {
            let init = Init::new().with_longest_lease(longest);
            memory.init(&init).await.unwrap();
        }
        Self(memories.map(|memory| Arc::new(Faulty::of(&memory))), clock)
    }

    async fn enter(&self, phase: Phase) -> Result<Migration, lock_core::Error> {
        let [old, new] = self.0.clone().map(|store| store as Arc<dyn Backend>);
        let label = OwnerLabel::new(format!("process in {phase}")).unwrap();
        Migration::with_env(old, new, phase, label, Arc::clone(&self.1)).await
    }

    async fn client(&self, phase: Phase) -> LockClient {
        self.client_of(Arc::new(self.enter(phase).await.unwrap()))
    }

    fn client_of(&self, store: Arc<dyn Backend>) -> LockClient {
        LockClient::with_env(store, Arc::clone(&self.1), ClientOptions::new()).unwrap()
    }

    /// The names of the records in one store.
    async fn records(&self, side: usize) -> Vec<LockName> {
        let page = self.0[side].memory.list(None).await.unwrap();
        let names = page.locks.into_iter().map(|lock| lock.name);
        names.filter(|name| name.as_str().starts_with("leasehold ")).collect()
    }

    /// Waits until all faults that were planted in a store have happened.
    async fn spent(&self, side: usize) {
        while !self.0[side].spent() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets the held call of the old store continue after this span.
    async fn let_go_after(&self, span: Duration) {
        self.spent(0).await;
        tokio::time::sleep(span).await;
        self.0[0].let_go();
    }

    /// The store loses all records.
    async fn forget_records(&self, side: usize) {
        for record in self.records(side).await {
            self.0[side].memory.force_release(&record).await.unwrap();
        }
    }
}

/// The store that a process in an end phase uses.
fn own(phase: Phase) -> usize {
    usize::from(phase == Phase::New)
}

fn far(phase: Phase) -> Phase {
    if phase == Phase::Old { Phase::New } else { Phase::Old }
}

async fn acquired(client: &LockClient, name: &str, lease: Duration) -> Guard {
    client.lock(name).lease(lease).wait(LONG).acquire().await.unwrap()
}

/// Between writing its record again and reading those of the others, a process may run at the same
/// time as one at the other end.
#[tokio::test(start_paused = true)]
async fn nothing_is_acquired_before_the_records_of_others_are_read() {
    for phase in ENDS {
        let lease = Duration::from_millis(300);
        let two = Two::new(lease).await;
        let client = two.client(phase).await;
        // The first read finds no other record. The second, after the write, is held.
        two.0[0].next("list", Fault::Fine);
        two.0[0].next("list", Fault::Held);
        two.forget_records(own(phase)).await;
        two.spent(0).await;
        assert_eq!(two.records(own(phase)).await.len(), 1, "{phase}: it is written again");
        let error = client.lock("job").lease(lease).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{phase}: {error}");
        two.0[0].let_go();
        acquired(&client, "job", lease).await.release().await.unwrap();
        client.close().await;
    }
}

/// If the machine pauses between the two tokens that are compared, this must not count as a
/// difference of clocks.
#[tokio::test(start_paused = true)]
async fn a_pause_while_entering_is_no_difference_of_clocks() {
    for phase in ENDS {
        let longest = Duration::from_millis(200);
        let two = Two::new(longest).await;
        // The second read, which is between the two.
        two.0[0].next("list", Fault::Fine);
        two.0[0].next("list", Fault::Held);
        let entering = async { tokio::join!(two.enter(phase), two.let_go_after(longest * 2)).0 };
        let migration = entering.await.unwrap_or_else(|error| panic!("{phase}: {error}"));
        assert!(two.0[0].spent());
        let client = two.client_of(Arc::new(migration));
        acquired(&client, "job", longest).await.release().await.unwrap();
        client.close().await;
    }
}

/// The record in one store is lost, and that in the other is not. As long as this process may
/// believe a lock, no process enters the other end phase.
#[tokio::test(start_paused = true)]
async fn a_record_stays_in_the_other_store_while_anything_is_believed() {
    for phase in ENDS {
        let lease = Duration::from_millis(600);
        let two = Two::new(lease).await;
        let client = two.client(phase).await;
        let guard = acquired(&client, "job", lease).await;
        two.forget_records(own(phase)).await;
        // It cannot be written again at once, as in a quarantine.
        two.0[own(phase)].next("acquire", Fault::Refused(ErrorKind::InvalidInput));
        // Either the process has its record again, or another process is in the other end phase.
        let entered = loop {
            if let Ok(other) = two.enter(far(phase)).await {
                break Some(other);
            }
            if !guard.is_valid() && client.lock("other").lease(lease).try_acquire().await.is_ok() {
                break None;
            }
            tokio::time::sleep(LOOK).await;
        };
        assert!(!guard.is_valid(), "{phase}: two may hold the lock, {:?}", guard.remaining());
        drop(entered);
        client.close().await;
    }
}

/// A store that lost its data may come back with another identity. The remaining records contain
/// the old identity. They must not keep out the processes that used the store.
#[tokio::test(start_paused = true)]
async fn a_store_that_came_back_with_another_identity_is_used_by_all_that_used_it() {
    for phase in ENDS {
        let lease = Duration::from_millis(300);
        let two = Two::new(lease).await;
        let clients = [two.client(phase).await, two.client(phase).await];
        let before = two.records(own(phase)).await;
        two.0[own(phase)].rename("another");
        two.forget_records(own(phase)).await;
        let limit = two.1.now() + LONG;
        for side in 0..2 {
            // Both records exist, and both are new.
            let mut records = Vec::new();
            while records.len() != 2 || records.iter().any(|record| before.contains(record)) {
                assert!(two.1.now() < limit, "{phase}, {side}: {records:?}");
                tokio::time::sleep(LOOK).await;
                records = two.records(side).await;
            }
        }
        for client in &clients {
            acquired(client, "job", lease).await.release().await.unwrap();
        }
        let error = two.enter(far(phase)).await.unwrap_err();
        assert!(error.to_string().contains("two phases away"), "{phase}: {error}");
        for client in clients {
            client.close().await;
        }
    }
}

/// It neither acquires nor renews any more, and its errors say why.
#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_renew_its_record_loses_its_locks_in_time() {
    for phase in [Phase::Old, Phase::Both, Phase::New] {
        for side in 0..2 {
            if phase != Phase::Both && side != own(phase) {
                continue;
            }
            let lease = Duration::from_millis(500);
            let two = Two::new(lease).await;
            let client = two.client(phase).await;
            let guard = acquired(&client, "job", lease).await;
            two.0[side].set_down(true);
            let until = two.1.now() + lease;
            guard.lost().await;
            assert!(two.1.now() < until, "{phase} {side}: it was lost after its lease");
            assert!(!guard.is_valid());
            let error = client.lock("new").lease(lease).try_acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{phase} {side}: {error}");
            two.0[side].set_down(false);
            acquired(&client, "job", lease).await.release().await.unwrap();
            client.close().await;
        }
    }
}

/// An end phase needs the other store only to enter.
#[tokio::test(start_paused = true)]
async fn an_end_phase_continues_without_the_other_store_but_cannot_be_entered() {
    for phase in ENDS {
        let lease = Duration::from_secs(4);
        let two = Two::new(lease).await;
        let other = 1 - own(phase);
        let client = two.client(phase).await;
        let guard = acquired(&client, "job", lease).await;
        two.0[other].set_down(true);
        while !two.records(other).await.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        assert!(guard.is_valid(), "{phase}: it was not renewed");
        acquired(&client, "another", lease).await.release().await.unwrap();
        let error = two.enter(phase).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{phase}: {error}");
        // The remaining record keeps processes out of the other end phase.
        two.0[other].set_down(false);
        two.enter(far(phase)).await.unwrap_err();
        guard.release().await.unwrap();
        client.close().await;
        two.enter(far(phase)).await.unwrap();
    }
}

/// A record that is being written while the migration is closed is released too.
#[tokio::test(start_paused = true)]
async fn closing_leaves_no_record_that_was_being_written() {
    let orders = ENDS.into_iter().chain([Phase::Both]).flat_map(|it| (0..16).map(move |n| (it, n)));
    for (phase, steps_before_the_end) in orders {
        let two = Two::new(LONG).await;
        let migration = two.enter(phase).await.unwrap();
        let store = &two.0[own(phase)];
        store.next("acquire", Fault::Held);
        two.forget_records(own(phase)).await;
        two.spent(own(phase)).await;
        if phase != Phase::Both {
            // The read after the write is held.
            two.0[0].next("list", Fault::Held);
        }
        store.let_go();
        for _ in 0..steps_before_the_end {
            tokio::task::yield_now().await;
        }
        migration.close().await;
        // Time passes only after all running calls have ended.
        tokio::time::sleep(LOOK).await;
        for side in 0..2 {
            let left = two.records(side).await;
            assert!(left.is_empty(), "{phase}, {steps_before_the_end} steps, {side}: {left:?}");
        }
    }
}

/// A record in only one store still keeps processes out of the other end phase.
#[tokio::test(start_paused = true)]
async fn a_record_in_one_store_is_enough_to_be_seen() {
    for phase in ENDS {
        for side in 0..2 {
            let two = Two::new(Duration::from_secs(10)).await;
            let there = two.enter(phase).await.unwrap();
            two.forget_records(side).await;
            let error = two.enter(far(phase)).await.unwrap_err();
            assert!(error.to_string().contains("two phases away"), "{phase} {side}: {error}");
            there.close().await;
        }
    }
}

/// Two migrations share one store. Phase `Both` of the one and phase `New` of the other have no
/// store in common.
#[tokio::test(start_paused = true)]
async fn a_migration_with_a_third_store_is_refused_if_no_store_is_shared() {
    let lease = Duration::from_secs(10);
    let one = Two::new(lease).await;
    let third = Arc::clone(&Two::new(lease).await.0[0]);
    let two = Two([Arc::clone(&one.0[0]), third], Arc::clone(&one.1));
    for (first, second) in [(Phase::Both, Phase::New), (Phase::New, Phase::Both)] {
        let there = one.enter(first).await.unwrap();
        let error = two.enter(second).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("another store"), "{error}");
        let fleet = Fleet::survey(&*two.0[0], &*two.0[1]).await.unwrap();
        assert_eq!(fleet.members.len(), 1);
        assert_eq!(fleet.members[0].phase, None);
        for direction in [Direction::Forward, Direction::Back] {
            let refusal = fleet.next(direction).unwrap_err();
            assert_eq!(refusal.who, fleet.members);
        }
        // Phase `Old` uses the store that both migrations share.
        let beside = two.enter(Phase::Old).await;
        assert_eq!(beside.is_ok(), first == Phase::Both, "{first}");
        there.close().await;
        if let Ok(beside) = beside {
            beside.close().await;
        }
    }
}

/// If a store fails for good in phase `both`, no process can enter an end phase. But when all
/// processes have stopped, and a longest lease later, the other store can be used by its own URL.
#[test]
fn after_all_processes_have_stopped_the_remaining_store_can_be_used_alone() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    for phase in ENDS {
        let (lease, left) = (Duration::from_secs(1), own(phase));
        let killed = runtime();
        let (two, token) = killed.block_on(async {
            let two = Two::new(lease).await;
            let client = two.client(Phase::Both).await;
            let guard = acquired(&client, "job", lease).await;
            two.0[1 - left].set_down(true);
            let error = two.enter(phase).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{phase}: {error}");
            let token = guard.token();
            // A killed process drops nothing.
            std::mem::forget((guard, client));
            (two, token)
        });
        drop(killed);
        runtime().block_on(async {
            let plain = two.client_of(Arc::clone(&two.0[left]) as Arc<dyn Backend>);
            let too_early = plain.lock("job").lease(lease).try_acquire().await.unwrap();
            assert!(matches!(too_early, TryAcquire::Busy(_)), "{phase}: {too_early:?}");
            let guard = acquired(&plain, "job", lease).await;
            assert!(guard.token() > token, "{phase}");
            guard.release().await.unwrap();
            plain.close().await;
        });
    }
}
