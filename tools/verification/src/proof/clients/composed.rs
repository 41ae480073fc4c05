//! The operations of a client process on several locks. They use other names than the single locks:
//! a task that waits for the second of two locks would keep others from the first.

use std::time::Duration;

use lock_core::{LockName, Monitor, Semaphore, all};

use super::workload::Worker;
use conformance_tests::history::Acquisition;

/// How many permits the semaphore has.
const PERMITS: u32 = 2;

/// The names for a run whose first name is `of`: a semaphore and its slots, two locks that are held
/// together, an election.
pub(crate) fn names(of: &LockName) -> Vec<LockName> {
    let parts = [POOL, "pool/0", "pool/1", BOTH[0], BOTH[1], CHIEF];
    parts.iter().filter_map(|part| named(of, part)).collect()
}

const POOL: &str = "pool";
const BOTH: [&str; 2] = ["one", "two"];
const CHIEF: &str = "chief";

fn named(of: &LockName, part: &str) -> Option<LockName> {
    LockName::new(format!("{of} {part}")).ok()
}

impl Worker {
    /// Makes one operation; returns whether the store answered.
    pub(super) async fn compose(&mut self) -> bool {
        let hold = self.rng.millis(30);
        match self.rng.roll(3) {
            0 => self.permit(hold).await,
            1 => self.both(hold).await,
            _ => self.lead(hold).await,
        }
    }

    fn named(&self, part: &str) -> LockName {
        named(&self.spec.names[0], part).expect("a short name")
    }

    async fn permit(&mut self, hold: Duration) -> bool {
        let name = self.named(POOL);
        let op = self.recorder.ask_permit(&name, PERMITS);
        let permit: Semaphore = self.client.semaphore(&name, PERMITS).lease(self.spec.lease);
        match permit.wait(self.spec.wait).acquire().await {
            Ok(permit) => {
                op.acquired(&permit);
                self.watch(&op, &permit, tokio::time::sleep(hold)).await;
                self.let_go(op, permit).await;
                true
            }
            Err(error) => {
                op.failed(&error);
                false
            }
        }
    }

    async fn both(&mut self, hold: Duration) -> bool {
        let mut names = BOTH.map(|part| self.named(part));
        if self.rng.roll(2) == 0 {
            names.reverse();
        }
        let ops = names.each_ref().map(|name| self.recorder.ask(name));
        let locks = names.each_ref().map(|name| self.client.lock(name).lease(self.spec.lease));
        let guards = match all(locks).wait(self.spec.wait).acquire().await {
            Ok(guards) => guards,
            Err(error) => {
                // The error names one of the two locks, and its token.
                for (op, name) in ops.iter().zip(&names) {
                    if error.name() == Some(name) { op.failed(&error) } else { op.cancelled() }
                }
                return false;
            }
        };
        for (op, guard) in ops.iter().zip(guards.iter()) {
            op.acquired(guard);
        }
        tokio::select! {
            (at, reason) = guards.lost() => ops[at].lost(reason),
            () = tokio::time::sleep(hold) => {}
        }
        for (op, guard) in ops.iter().zip(guards.iter()) {
            op.look(guard);
            op.given_up();
        }
        let _ = guards.release().await;
        true
    }

    /// Leads for a short term.
    async fn lead(&mut self, hold: Duration) -> bool {
        let name = self.named(CHIEF);
        let election = self.client.election(&name).lease(self.spec.lease);
        let term = election.run(async |leadership: Monitor| {
            let term = Term(self.recorder.ask(&name));
            term.0.acquired_through(&name, &leadership);
            tokio::time::sleep(hold).await;
            term.0.look_through(&leadership);
        });
        // A candidate waits no longer than the other waiters.
        matches!(tokio::time::timeout(self.spec.wait, term).await, Ok(Ok(_)))
    }
}

/// Records the end of a term when its work ends or is dropped.
struct Term(Acquisition);

impl Drop for Term {
    fn drop(&mut self) {
        self.0.given_up();
    }
}
