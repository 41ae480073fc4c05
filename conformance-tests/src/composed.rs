//! Operations on several locks (re-entry, all, any, semaphores), and latches, as the cases use
//! them: those of the core, or a version that is broken on purpose.
//!
//! The core composes these operations from plain locks and records. So no backend can break them,
//! and each broken version here composes the same plain locks and records wrongly.

use std::{future::pending, time::Duration};

use lock_core::{Error, Guard, Guards, Latch, Lock, LockClient, LockName, Semaphore};
use tokio::sync::mpsc;

use crate::{
    composition::Composition,
    setting::{Setting, pause},
};

impl Setting {
    /// Releases one guard of a hold.
    pub(crate) async fn release(&self, guard: Guard) -> Result<(), Error> {
        if self.composition == Composition::ReleasesWithTheFirst {
            self.connect().await.force_release(guard.name()).await?;
        }
        guard.release().await
    }

    /// Acquires all of these locks, or none.
    pub(crate) async fn all(&self, locks: Vec<Lock>, wait: Duration) -> Result<Vec<Guard>, Error> {
        let keeps = self.composition == Composition::KeepsWhatItTook;
        if !keeps && self.composition != Composition::TakesInAnyOrder {
            return lock_core::all(locks).wait(wait).acquire().await.map(Guards::into_vec);
        }
        let mut taken = Vec::new();
        for lock in locks {
            match lock.wait(wait).acquire().await {
                Ok(guard) => taken.push(guard),
                Err(error) => {
                    if keeps {
                        keep(taken);
                    }
                    return Err(error);
                }
            }
            // The store in memory answers at once, so without this no other task would run in
            // between.
            tokio::task::yield_now().await;
        }
        Ok(taken)
    }

    /// Acquires one of these locks.
    pub(crate) async fn any(&self, locks: Vec<Lock>) -> Result<Guard, Error> {
        if self.composition != Composition::KeepsLosers {
            return lock_core::any(locks).acquire().await;
        }
        let (granted, mut first) = mpsc::unbounded_channel();
        for lock in locks {
            let granted = granted.clone();
            tokio::spawn(async move {
                if let Err(late) = granted.send(lock.acquire().await) {
                    keep(late);
                }
            });
        }
        first.recv().await.expect("one is granted")
    }

    /// A semaphore with `permits` permits.
    pub(crate) fn semaphore(
        &self,
        client: &LockClient,
        name: &LockName,
        permits: u32,
    ) -> Semaphore {
        let more = u32::from(self.composition == Composition::OneSlotMore);
        client.semaphore(name, permits + more)
    }

    /// Waits until a latch is open.
    pub(crate) async fn opened(&self, latch: Latch) -> Result<(), Error> {
        if self.composition != Composition::OpensWithoutAnAnswer {
            return latch.wait().await;
        }
        while latch.open_parts().await.is_ok_and(|open| !open.is_empty()) {
            pause().await;
        }
        Ok(())
    }
}

/// Keeps the guards for ever.
fn keep(taken: impl Send + 'static) {
    tokio::spawn(async move {
        let _taken = taken;
        pending::<()>().await;
    });
}
