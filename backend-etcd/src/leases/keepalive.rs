//! One keepalive stream for all leases of a client.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use etcd_client::{LeaseKeepAliveResponse, LeaseKeepAliveStream, LeaseKeeper};
use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use tokio::sync::{mpsc, oneshot};

use super::ledger::{KeepaliveAck, Ledger};
use crate::{
    rpc::{Lease, Rpc, failure, late},
    tunables::{SILENT_KEEPALIVES, STREAM_PAUSE},
};

type Answer = oneshot::Sender<Result<KeepaliveAck, Error>>;

/// Asks for keepalives. The stream's task ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Keepalives {
    asks: mpsc::UnboundedSender<(i64, Answer)>,
    limit: Duration,
}

impl Keepalives {
    /// Starts the task on the current runtime; the stream is opened when it is first needed.
    pub(crate) fn start(rpc: Rpc) -> Self {
        let (asks, inbox) = mpsc::unbounded_channel();
        let limit = rpc.limit;
        tokio::spawn(Task { rpc, inbox, waiting: HashMap::new() }.run());
        Self { asks, limit }
    }

    /// Keeps a lease alive; `None` if it is gone.
    pub(crate) async fn extend(&self, id: i64) -> Result<Option<Lease>, Error> {
        Ok(match self.ask(id).await? {
            KeepaliveAck::Alive { from, seconds } => {
                Some(Lease { id, ttl: Duration::from_secs(seconds), from })
            }
            _ => None,
        })
    }

    /// Sends one keepalive and waits for its answer.
    pub(crate) async fn ask(&self, lease: i64) -> Result<KeepaliveAck, Error> {
        let (answer, answered) = oneshot::channel();
        // A task that has ended drops the answer, which says so.
        let _ = self.asks.send((lease, answer));
        match tokio::time::timeout(self.limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime that kept the leases has ended, or the client is closed",
            )),
            Err(_) => Err(late(self.limit)),
        }
    }
}

struct Task {
    rpc: Rpc,
    inbox: mpsc::UnboundedReceiver<(i64, Answer)>,
    /// The callers that wait for the answers of each lease, in the order in which they asked.
    waiting: HashMap<i64, VecDeque<Answer>>,
}

impl Task {
    async fn run(mut self) {
        let mut next = self.inbox.recv().await;
        while let Some((lease, answer)) = next {
            // A caller that has given up may want its lease to end.
            if answer.is_closed() {
                next = self.inbox.recv().await;
                continue;
            }
            let position = self.rpc.members.position();
            self.rpc.members.stream_begins();
            let opened = tokio::time::timeout(SILENT_KEEPALIVES, self.rpc.stream(lease)).await;
            match opened.unwrap_or_else(|_| Err(late(SILENT_KEEPALIVES))) {
                Ok(Some((keeper, stream))) => {
                    let error = self.serve(keeper, stream, (lease, answer)).await;
                    let Some(error) = error else { return };
                    tracing::debug!(%error, "the keepalive stream ended");
                    // Another member may serve where this one hangs.
                    self.rpc.members.give_up(position);
                    for (_, waiting) in self.waiting.drain() {
                        for answer in waiting {
                            let _ = answer.send(Err(error.clone()));
                        }
                    }
                }
                Ok(None) => drop(answer.send(Ok(KeepaliveAck::Lost))),
                Err(error) => {
                    self.rpc.members.give_up(position);
                    let _ = answer.send(Err(error));
                    tokio::time::sleep(STREAM_PAUSE).await;
                }
            }
            next = self.inbox.recv().await;
        }
    }

    /// Serves until the stream ends, and returns the reason; `None` once all callers have gone.
    async fn serve(
        &mut self,
        mut keeper: LeaseKeeper,
        mut stream: LeaseKeepAliveStream,
        first: (i64, Answer),
    ) -> Option<Error> {
        let mut ledger = Ledger::default();
        let mut ask = Some(first);
        // When something was answered last, or the first of those that wait was sent.
        let mut heard = SystemEnv.now();
        loop {
            if let Some((lease, answer)) = ask.take() {
                let now = SystemEnv.now();
                if ledger.is_empty() {
                    heard = now;
                }
                ledger.sent(lease, now);
                self.waiting.entry(lease).or_default().push_back(answer);
                keeper.id = lease;
                match tokio::time::timeout(SILENT_KEEPALIVES, keeper.keep_alive()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Some(failure(error).into()),
                    Err(_) => return Some(late(SILENT_KEEPALIVES)),
                }
            }
            let waits = !ledger.is_empty();
            let stuck =
                async { SystemEnv.sleep((heard + SILENT_KEEPALIVES).since(SystemEnv.now())).await };
            tokio::select! {
                // Answers first: a task that was held up must not give up a stream whose answers have
                // arrived.
                biased;
                message = stream.message() => match message {
                    Ok(Some(message)) => {
                        heard = SystemEnv.now();
                        self.credit(&mut ledger, &message);
                    }
                    Ok(None) => {
                        let message = "etcd ended the keepalive stream";
                        return Some(Error::new(ErrorKind::Unavailable, message));
                    }
                    Err(error) => return Some(failure(error).into()),
                },
                next = self.inbox.recv() => ask = Some(next?),
                () = stuck, if waits => return Some(late(SILENT_KEEPALIVES)),
            }
        }
    }

    fn credit(&mut self, ledger: &mut Ledger, message: &LeaseKeepAliveResponse) {
        let credit = ledger.answered(message.id(), message.ttl());
        let Some(waiting) = self.waiting.get_mut(&message.id()) else { return };
        match credit {
            KeepaliveAck::Unasked => {}
            KeepaliveAck::Alive { .. } => {
                if let Some(answer) = waiting.pop_front() {
                    let _ = answer.send(Ok(credit));
                }
            }
            KeepaliveAck::Lost => {
                for answer in waiting.drain(..) {
                    let _ = answer.send(Ok(credit));
                }
            }
        }
        if waiting.is_empty() {
            self.waiting.remove(&message.id());
        }
    }
}
