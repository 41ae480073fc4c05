//! Holders that record how long they rely on their lock.

use std::time::Duration;

use conformance_tests::history::{Acquisition, Recorder};
use lock_core::{FencingToken, Guard, LockClient};
use tokio::{sync::watch, task::JoinHandle};

use super::name;

/// A guard whose holder continuously records whether it relies on the lock.
pub(crate) struct Holder {
    pub(crate) token: FencingToken,
    done: watch::Sender<bool>,
    task: JoinHandle<Option<lock_core::LossReason>>,
}

/// Waits for `a` with this lease, and holds it.
pub(crate) async fn hold(recorder: &Recorder, client: &LockClient, lease: Duration) -> Holder {
    let asked = recorder.ask(&name("a"));
    let guard = client.lock(name("a")).lease(lease).wait(Duration::from_secs(100)).acquire().await;
    let guard = guard.unwrap();
    let token = guard.token();
    asked.acquired(&guard);
    let (done, told) = watch::channel(false);
    Holder { token, done, task: tokio::spawn(believe(asked, guard, told)) }
}

async fn believe(
    asked: Acquisition,
    guard: Guard,
    mut told: watch::Receiver<bool>,
) -> Option<lock_core::LossReason> {
    loop {
        tokio::select! {
            reason = guard.lost() => {
                asked.lost(reason);
                return Some(reason);
            }
            _ = told.changed() => {
                asked.look(&guard);
                asked.given_up();
                return None;
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                asked.look(&guard);
            }
        }
    }
}

impl Holder {
    /// The reason if the lock was lost; otherwise releases it.
    pub(crate) async fn end(self) -> Option<lock_core::LossReason> {
        self.done.send(true).ok();
        self.task.await.unwrap()
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(self) -> lock_core::LossReason {
        let lost = tokio::time::timeout(Duration::from_secs(100), self.task).await;
        lost.unwrap().unwrap().unwrap()
    }
}
