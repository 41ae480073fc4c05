//! The node of a session, and what it shows of elections.
//!
//! ZooKeeper counts its elections, in the upper half of each transaction's number: the epoch.
//! Servers that start with a restored state elect a leader, too, and show no other difference. So
//! an epoch is open only when somebody knows that its state is not an old one.
//!
//! A session knows it by its own node, which only it writes, each time with a check of the version.
//! If such a write succeeds, the state has the write before, and with it all that was confirmed
//! earlier. So the state was saved after that write, and that is less than a lease ago. The store
//! assumes that no state is restored that is so young. A chain of such writes leads from an epoch
//! that was open to the present one. Other writes of the session are no part of it, so also a busy
//! session writes its node in each third of a lease.
//!
//! If the version is another one, the servers have gone back. Then the session is over for its
//! client: the locks that it had may be missing, and those that it has there may be over. ZooKeeper
//! keeps it until the last of its guards would end: they learn of the loss with their next renewal,
//! and until then nobody else may have their locks.

use std::{sync::Arc, time::Duration};

use lock_core::{Env as _, Error, ErrorKind, Instant, SystemEnv};
use zookeeper_client::Error as Refusal;

use super::{
    requests::{Write, WriteResult},
    runtime::on_runtime,
    session::Session,
};
use crate::error::Failure;

/// The node of a session, as its last answered write has left it.
#[derive(Debug)]
pub(super) struct OwnNode {
    pub(super) path: String,
    version: i32,
    /// A write was sent and no answer has come so far, so the version may be higher by one.
    is_unknown: bool,
}

/// What the answered writes of the node show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// When the last one was sent.
    pub(super) written: Instant,
    /// Its epoch.
    epoch: i64,
    /// Since this epoch nothing was lost.
    unbroken_since: i64,
}

impl Chain {
    /// The chain of a node that was made in this epoch.
    pub(super) fn new(sent: Instant, epoch: i64) -> Self {
        Self { written: sent, epoch, unbroken_since: epoch }
    }

    /// A write in this epoch was answered just now.
    fn wrote(&mut self, sent: Instant, epoch: i64, lease: Duration) {
        // guard: own-version/age | S1 |
        //   restore::an_ensemble_that_went_back_waits_although_nobody_reports_it |
        //   SystemEnv.now().since(self.written) >= lease => false
        if SystemEnv.now().since(self.written) >= lease {
            self.unbroken_since = epoch;
        }
        (self.written, self.epoch) = (sent, epoch);
    }
}

/// What a failed write of the node means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// An earlier write was carried out. The same write is to be sent for the next version.
    Behind,
    /// The servers do not have the last confirmed write.
    GoneBack,
    Failed,
}

/// The epoch of a transaction.
pub(crate) fn epoch_of(zxid: i64) -> i64 {
    zxid >> 32
}

impl OwnNode {
    pub(super) fn new(path: String) -> Self {
        Self { path, version: 0, is_unknown: false }
    }

    /// Before a write is sent, whose answer may never come. Returns whether an earlier write is
    /// unknown.
    fn begin(&mut self) -> bool {
        // guard: unknown-write | operation | faults::a_lost_answer_to_a_renewal_ends_no_session |
        //   true => false
        std::mem::replace(&mut self.is_unknown, true)
    }

    /// After a write that failed. `was_unknown` is what [`begin`](Self::begin) returned.
    fn judge(&mut self, was_unknown: bool, failure: &Failure) -> Verdict {
        match failure {
            Failure::Refused(0, Refusal::BadVersion) if was_unknown => {
                (self.version, self.is_unknown) = (self.version + 1, false);
                Verdict::Behind
            }
            Failure::Refused(0, Refusal::BadVersion | Refusal::NoNode) => Verdict::GoneBack,
            // Nothing was carried out, and the version was not looked at.
            Failure::Refused(..) => {
                self.is_unknown = was_unknown;
                Verdict::Failed
            }
            Failure::Error(_) => Verdict::Failed,
        }
    }
}

impl Session {
    /// The epoch of the last write of the node.
    pub(crate) fn epoch(&self) -> i64 {
        self.chain.lock().epoch
    }

    /// Two epochs: that of the last write of the node, and an earlier one. Between the two nothing
    /// was lost, if no state is restored that is younger than `longest`. A longer session proves
    /// less.
    pub(crate) fn unbroken(&self, longest: Duration) -> (i64, i64) {
        let Chain { epoch, unbroken_since, .. } = *self.chain.lock();
        (epoch, if self.lease <= longest { unbroken_since } else { epoch })
    }

    /// Writes the node. Callers at the same time share one write.
    pub(crate) async fn touch(self: &Arc<Self>) -> Result<(), Error> {
        let (session, called) = (Arc::clone(self), SystemEnv.now());
        // A caller whose future nobody polls would keep the node from all others.
        on_runtime(async move {
            let mut own = session.own.lock().await;
            if session.written() >= called {
                return Ok(());
            }
            session.write_own(&mut own, &[]).await.map_err(Error::from)
        })
        .await
    }

    /// Writes the node, and replaces the data of another node in the same step, if they have this
    /// version.
    pub(crate) async fn put_with_own(
        self: &Arc<Self>,
        path: String,
        data: Vec<u8>,
        version: i32,
    ) -> Result<(), Failure> {
        let session = Arc::clone(self);
        on_runtime(async move {
            let mut own = session.own.lock().await;
            session.write_own(&mut own, &[Write::Put(&path, &data, version)]).await
        })
        .await
    }

    async fn write_own(&self, own: &mut OwnNode, more: &[Write<'_>]) -> Result<(), Failure> {
        loop {
            let (sent, was_unknown) = (SystemEnv.now(), own.begin());
            // guard: own-version/put | S1 |
            //   restore::an_ensemble_that_went_back_waits_although_nobody_reports_it |
            //   own.version => -1
            let mut steps = vec![Write::Put(&own.path, &[], own.version)];
            steps.extend(more);
            let failure = match self.write(&steps).await {
                Ok(made) => {
                    let Some(WriteResult::Data(stat)) = made.into_iter().next() else {
                        let message = "ZooKeeper does not say what it has written";
                        return Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
                    };
                    self.chain.lock().wrote(sent, epoch_of(stat.mzxid), self.lease);
                    (own.version, own.is_unknown) = (stat.version, false);
                    return Ok(());
                }
                Err(failure) => failure,
            };
            match own.judge(was_unknown, &failure) {
                Verdict::Behind => {}
                Verdict::GoneBack => {
                    self.give_up();
                    let message = "the servers have gone back to an earlier state, or the node of the session was \
                                   changed by hand";
                    return Err(Error::new(ErrorKind::Unavailable, message).into());
                }
                Verdict::Failed => return Err(failure),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> OwnNode {
        OwnNode::new(String::new())
    }

    /// A caller that goes away leaves the node as it is after `begin`.
    #[test]
    fn a_write_that_nobody_waits_for_is_unknown() {
        let mut own = node();
        assert!(!own.begin());
        let was_unknown = own.begin();
        let changed = Failure::Refused(0, Refusal::BadVersion);
        assert_eq!(own.judge(was_unknown, &changed), Verdict::Behind);
        assert_eq!(own.version, 1);
        // No other write was sent, so the second refusal has another reason.
        let was_unknown = own.begin();
        assert_eq!(own.judge(was_unknown, &changed), Verdict::GoneBack);
    }

    /// The server says nothing of the version, so an earlier write stays unknown.
    #[test]
    fn a_refusal_of_another_kind_says_nothing_of_an_earlier_write() {
        let refusals = [Refusal::Throttled, Refusal::NoAuth, Refusal::QuotaExceeded];
        for was_unknown in [false, true] {
            let mut own = node();
            own.is_unknown = was_unknown;
            for refusal in refusals.clone() {
                let before = own.begin();
                assert_eq!(own.judge(before, &Failure::Refused(0, refusal)), Verdict::Failed);
                assert_eq!((own.version, own.is_unknown), (0, was_unknown));
            }
            let before = own.begin();
            let gone = Failure::Refused(0, Refusal::NoNode);
            assert_eq!(own.judge(before, &gone), Verdict::GoneBack);
        }
    }
}
