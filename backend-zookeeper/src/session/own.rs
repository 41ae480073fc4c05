//! The node of a session, and what it shows of elections.
//!
//! ZooKeeper counts its elections, in the upper half of each transaction's number: the epoch. A
//! restored state needs an election, too, and shows no other difference. So an epoch is open only
//! when somebody knows that its state is not an old one.
//!
//! A session knows it by its own node, which only it writes, each time with a check of the version.
//! If such a write succeeds, the state has the write before, and with it all that was confirmed
//! earlier. So the state was saved after that write, and that is less than a lease ago. The store
//! assumes that no state is restored that is so young. A chain of such writes leads from an epoch
//! that was open to the present one.
//!
//! If the version is another one, the servers have gone back. Then the session ends at once: the
//! locks that it had may be missing, and those that it has there may be over.

use std::{sync::atomic::Ordering, time::Duration};

use lock_core::{Env as _, Error, ErrorKind, Instant, SystemEnv};
use zookeeper_client::Stat;

use super::{
    requests::{Made, Write},
    session::Session,
};
use crate::error::Failure;

/// The node of a session, as its last answered write has left it.
#[derive(Debug)]
pub(super) struct OwnNode {
    pub(super) path: String,
    version: i32,
    /// A write was not answered, so the version may be higher by one.
    is_unknown: bool,
    /// When that write was sent.
    sent: Instant,
}

/// The epoch of a transaction.
pub(crate) fn epoch_of(zxid: i64) -> i64 {
    zxid >> 32
}

impl OwnNode {
    pub(super) fn new(path: String, sent: Instant) -> Self {
        Self { path, version: 0, is_unknown: false, sent }
    }
}

impl Session {
    /// The epoch of the last write of the node.
    pub(crate) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Since this epoch, nothing was lost until [`epoch`](Self::epoch), if no state is restored
    /// that is younger than `longest`. A longer session proves less.
    pub(crate) fn unbroken_since(&self, longest: Duration) -> i64 {
        match self.lease <= longest {
            true => self.unbroken_since.load(Ordering::Acquire),
            false => self.epoch(),
        }
    }

    /// Writes. Callers at the same time share one write.
    pub(crate) async fn touch(&self) -> Result<(), Error> {
        let called = SystemEnv.now();
        let mut own = self.own.lock().await;
        if self.written() >= called {
            return Ok(());
        }
        self.write_own(&mut own, &[]).await.map_err(Error::from)
    }

    /// Writes the node, and more in the same step.
    pub(crate) async fn write_with_own(&self, more: &[Write<'_>]) -> Result<(), Failure> {
        let mut own = self.own.lock().await;
        self.write_own(&mut own, more).await
    }

    async fn write_own(&self, own: &mut OwnNode, more: &[Write<'_>]) -> Result<(), Failure> {
        loop {
            let sent = SystemEnv.now();
            let mut steps = vec![Write::Put(&own.path, &[], own.version)];
            steps.extend(more);
            match self.write(&steps).await {
                Ok(made) => {
                    let Some(Made::Data(stat)) = made.into_iter().next() else {
                        let message = "ZooKeeper does not say what it has written";
                        return Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
                    };
                    self.wrote_own(own, &stat, sent);
                    return Ok(());
                }
                Err(Failure::Refused(0, _)) if own.is_unknown => {
                    // The write that was not answered was carried out.
                    (own.version, own.is_unknown) = (own.version + 1, false);
                }
                Err(failure @ Failure::Refused(0, _)) if failure.is_rolled_back() => {
                    self.clock.note_gone_back(true);
                    self.end();
                    let message = "the servers have gone back to an earlier state, or the node of the session was \
                                   changed by hand";
                    return Err(Error::new(ErrorKind::Unavailable, message).into());
                }
                Err(failure) => {
                    own.is_unknown |= matches!(failure, Failure::Error(_));
                    return Err(failure);
                }
            }
        }
    }

    fn wrote_own(&self, own: &mut OwnNode, stat: &Stat, sent: Instant) {
        let epoch = epoch_of(stat.mzxid);
        if SystemEnv.now().since(own.sent) >= self.lease {
            self.unbroken_since.store(epoch, Ordering::Release);
        }
        self.epoch.store(epoch, Ordering::Release);
        (own.version, own.is_unknown, own.sent) = (stat.version, false, sent);
    }
}
