//! One question to several nodes: who has answered, who may yet, and who finishes behind.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{BoxFuture, Error};
use tokio::time::Sleep;

use crate::{
    peer::Answer,
    quorum::{Call, Quorum},
};

type Asking = FuturesUnordered<BoxFuture<(usize, Result<Answer, Error>)>>;

/// One question to several nodes.
pub(crate) struct Round {
    asking: Asking,
    pending: Vec<usize>,
    alarm: Pin<Box<Sleep>>,
    limit: Duration,
    minority: usize,
    /// How much longer it waits, once, if more than a minority was silent when the time was over.
    patience: Duration,
}

/// How many times as long a round waits where more than a minority is silent: that is rather this
/// process or its network than the nodes, and without a majority there is nothing to go on with.
const PATIENCE: u32 = 10;

impl Quorum {
    /// Asks these nodes at once; `limit` is how long anybody waits.
    pub(crate) fn ask(self: &Arc<Self>, who: &[usize], call: &Arc<Call>, limit: Duration) -> Round {
        self.ask_each(who, |_| Arc::clone(call), limit)
    }

    /// The same with a call for each.
    pub(crate) fn ask_each(
        self: &Arc<Self>,
        who: &[usize],
        call: impl Fn(usize) -> Arc<Call>,
        limit: Duration,
    ) -> Round {
        let asking = who.iter().map(|&at| -> BoxFuture<_> {
            let (quorum, call) = (Arc::clone(self), call(at));
            Box::pin(async move { (at, quorum.put(at, &call).await) })
        });
        Round {
            asking: asking.collect(),
            pending: who.to_vec(),
            alarm: Box::pin(tokio::time::sleep(limit)),
            limit,
            minority: self.peers.len() - self.majority(),
            // Before the connections are given up, so that what is taken back goes the same way.
            patience: (limit * PATIENCE).min(self.options.timeout / 2).saturating_sub(limit),
        }
    }
}

impl Round {
    /// The next answer; `None` when all have answered or nobody waits any longer.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<Answer, Error>)> {
        loop {
            tokio::select! {
                biased;
                answer = self.asking.next() => {
                    let (at, answer) = answer?;
                    self.pending.retain(|other| *other != at);
                    return Some((at, answer));
                }
                () = &mut self.alarm => {
                    let more = std::mem::take(&mut self.patience);
                    if more.is_zero() || self.pending.len() <= self.minority {
                        return None;
                    }
                    self.alarm.as_mut().reset(tokio::time::Instant::now() + more);
                }
            }
        }
    }

    /// Whether the node may still answer in time.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        !self.alarm.is_elapsed() && self.pending.contains(&at)
    }

    /// Whether any node may.
    pub(crate) fn any_open(&self) -> bool {
        !self.alarm.is_elapsed() && !self.pending.is_empty()
    }

    /// Whom nothing was heard of.
    pub(crate) fn silent(&self) -> &[usize] {
        &self.pending
    }

    /// Lets the stragglers finish behind. What they answer goes to `then`; who is still silent when the
    /// time is over is suspected and comes to it with `None`, and later again with its answer.
    pub(crate) fn finish(
        mut self,
        quorum: &Arc<Quorum>,
        mut then: impl FnMut(usize, Option<Result<Answer, Error>>) + Send + 'static,
    ) {
        if self.pending.is_empty() {
            return;
        }
        let stragglers = Arc::clone(quorum);
        quorum.behind(async move {
            while let Some((at, answer)) = self.next().await {
                then(at, Some(answer));
            }
            let why = format!("no answer within {}", humantime::format_duration(self.limit));
            for at in &self.pending {
                stragglers.suspect(*at, &why);
                then(*at, None);
            }
            while let Some((at, answer)) = self.asking.next().await {
                then(at, Some(answer));
            }
        });
    }
}
