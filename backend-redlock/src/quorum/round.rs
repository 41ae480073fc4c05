//! One question to several nodes: the answers in time, and those that come after the caller has
//! gone.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{BoxFuture, Error};
use tokio::time::Sleep;

use super::{node::NodeAnswer, nodes::Quorum};
use crate::{scripts::ScriptCall, tunables::SILENCE_FACTOR};

type Asking = FuturesUnordered<BoxFuture<(usize, Result<NodeAnswer, Error>)>>;

/// One question to several nodes.
pub(crate) struct Round {
    asking: Asking,
    pending: Vec<usize>,
    alarm: Pin<Box<Sleep>>,
    limit: Duration,
    minority: usize,
    /// How much longer the round waits, once, if more than a minority is silent when the time is
    /// over.
    extra_wait: Duration,
}

impl Round {
    /// Asks these nodes at once, and waits for answers for `limit`.
    pub(crate) fn ask(
        quorum: &Arc<Quorum>,
        contacts: &[usize],
        call: &Arc<ScriptCall>,
        limit: Duration,
    ) -> Self {
        Self::ask_each(quorum, contacts, |_| Arc::clone(call), limit)
    }

    /// As [`ask`](Self::ask), with a call for each node.
    pub(crate) fn ask_each(
        quorum: &Arc<Quorum>,
        contacts: &[usize],
        call: impl Fn(usize) -> Arc<ScriptCall>,
        limit: Duration,
    ) -> Self {
        let asking = contacts.iter().map(|&at| -> BoxFuture<_> {
            let (quorum, call) = (Arc::clone(quorum), call(at));
            Box::pin(async move { (at, quorum.put(at, &call).await) })
        });
        Self {
            asking: asking.collect(),
            pending: contacts.to_vec(),
            alarm: Box::pin(tokio::time::sleep(limit)),
            limit,
            minority: quorum.nodes.len() - quorum.majority(),
            // Less than the time limit of the connections, so that a clean-up can use the same
            // connections.
            extra_wait: (limit * SILENCE_FACTOR)
                .min(quorum.options.timeout / 2)
                .saturating_sub(limit),
        }
    }

    /// The next answer. `None` when all nodes have answered or the time is over.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<NodeAnswer, Error>)> {
        loop {
            tokio::select! {
                biased;
                answer = self.asking.next() => {
                    let (at, answer) = answer?;
                    self.pending.retain(|other| *other != at);
                    return Some((at, answer));
                }
                () = &mut self.alarm => {
                    let more = std::mem::take(&mut self.extra_wait);
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

    /// Whether any node may still answer in time.
    pub(crate) fn any_open(&self) -> bool {
        !self.alarm.is_elapsed() && !self.pending.is_empty()
    }

    /// The nodes that have not answered.
    pub(crate) fn silent(&self) -> &[usize] {
        &self.pending
    }

    /// Waits for the late answers in the background, and passes them to `then`. If a node is still
    /// silent when the time is over, it is suspected: `then` gets `None` for it, and later its
    /// answer.
    pub(crate) fn finish(
        mut self,
        quorum: &Arc<Quorum>,
        mut then: impl FnMut(usize, Option<Result<NodeAnswer, Error>>) + Send + 'static,
    ) {
        if self.pending.is_empty() {
            return;
        }
        let own = Arc::clone(quorum);
        quorum.spawn_background(async move {
            while let Some((at, answer)) = self.next().await {
                then(at, Some(answer));
            }
            let why = format!("no answer within {}", humantime::format_duration(self.limit));
            for at in &self.pending {
                own.suspect(*at, &why);
                then(*at, None);
            }
            while let Some((at, answer)) = self.asking.next().await {
                then(at, Some(answer));
            }
        });
    }
}
