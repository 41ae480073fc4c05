//! One keepalive stream for all leases of a client.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use lock_core::{Env as _, Error, ErrorKind, Instant, Mutex, SystemEnv};
use tokio::sync::{mpsc, oneshot};

use crate::{
    rpc::{Lease, Rpc, failure, late},
    tunables::{SILENT_KEEPALIVES, STREAM_PAUSE},
};

/// Where the answer to a keepalive goes: `None` if the lease is gone.
type Reply = oneshot::Sender<Result<Option<Lease>, Error>>;

type Requests = mpsc::UnboundedSender<(i64, Reply)>;

/// Sends keepalives. The task of the stream ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Keepalives {
    rpc: Rpc,
    /// To the task, which runs on the runtime of the caller that started it. `None` before the
    /// first keepalive.
    requests: Arc<Mutex<Option<Requests>>>,
}

impl Keepalives {
    pub(crate) fn new(rpc: Rpc) -> Self {
        Self { rpc, requests: Arc::default() }
    }

    /// Sends one keepalive and waits for its answer; `None` if the lease is gone.
    pub(crate) async fn extend(&self, id: i64) -> Result<Option<Lease>, Error> {
        let (reply, replied) = oneshot::channel();
        self.send((id, reply));
        let limit = self.rpc.limit;
        match tokio::time::timeout(limit, replied).await {
            Ok(Ok(answer)) => answer,
            // The caller's next keepalive starts the task again.
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime that sent the keepalives has ended",
            )),
            Err(_) => Err(late(limit)),
        }
    }

    /// Sends a request to the task. If the task has ended with its runtime, starts it again on the
    /// caller's.
    fn send(&self, request: (i64, Reply)) {
        let mut requests = self.requests.lock();
        let unsent = match &*requests {
            Some(task) => match task.send(request) {
                Ok(()) => return,
                Err(unsent) => unsent.0,
            },
            None => request,
        };
        let (task, inbox) = mpsc::unbounded_channel();
        // This cannot fail: the inbox still exists.
        task.send(unsent).ok();
        tokio::spawn(
            Task { rpc: self.rpc.clone(), inbox, unanswered: Unanswered::default() }.run(),
        );
        *requests = Some(task);
    }
}

/// The unanswered keepalives of one stream: when each was sent, and what waits for its answer.
///
/// An answer names the lease, not the keepalive. A stream keeps the order per lease, so an answer
/// belongs to the oldest unanswered keepalive of its lease *on that stream*. If it were matched to
/// a later one, the client would believe in the lease for longer than etcd keeps it. A new stream
/// starts with none: those of the old one count for nothing.
#[derive(Debug)]
struct Unanswered<T>(HashMap<i64, VecDeque<(Instant, T)>>);

impl<T> Default for Unanswered<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Unanswered<T> {
    /// Adds a keepalive. `at` is read before the keepalive is handed to the stream.
    fn sent(&mut self, lease: i64, at: Instant, waits: T) {
        self.0.entry(lease).or_default().push_back((at, waits));
    }

    /// What an answer of etcd means for the keepalives that it answers. etcd reports a lease that
    /// is gone by a TTL of 0 or less, and then answers all keepalives of that lease.
    fn answered(&mut self, id: i64, ttl: i64) -> Vec<(T, Option<Lease>)> {
        let seconds = u64::try_from(ttl).unwrap_or(0);
        if seconds == 0 {
            let all = self.0.remove(&id).into_iter().flatten();
            return all.map(|(_, waits)| (waits, None)).collect();
        }
        let Some(sent) = self.0.get_mut(&id) else { return Vec::new() };
        let oldest = sent.pop_front();
        if sent.is_empty() {
            self.0.remove(&id);
        }
        let lease = |from| Lease { id, ttl: Duration::from_secs(seconds), from };
        oldest.into_iter().map(|(from, waits)| (waits, Some(lease(from)))).collect()
    }
}

struct Task {
    rpc: Rpc,
    inbox: mpsc::UnboundedReceiver<(i64, Reply)>,
    unanswered: Unanswered<Reply>,
}

impl Task {
    async fn run(mut self) {
        let mut next = self.inbox.recv().await;
        while let Some((lease, reply)) = next {
            // A caller that has given up may want its lease to end.
            if reply.is_closed() {
                next = self.inbox.recv().await;
                continue;
            }
            let position = self.rpc.members.position();
            self.rpc.members.count_stream();
            let opened = tokio::time::timeout(SILENT_KEEPALIVES, self.rpc.stream(lease)).await;
            match opened.unwrap_or_else(|_| Err(late(SILENT_KEEPALIVES))) {
                Ok(Some((keeper, stream))) => {
                    let error = self.serve(keeper, stream, (lease, reply)).await;
                    let Some(error) = error else { return };
                    tracing::trace!(target: "leasehold", %error, "the keepalive stream ended");
                    // If this member hangs, another may serve.
                    self.rpc.members.give_up_silent(position);
                    for (_, reply) in self.unanswered.0.drain().flat_map(|(_, sent)| sent) {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
                Ok(None) => drop(reply.send(Ok(None))),
                Err(error) => {
                    self.rpc.members.give_up_silent(position);
                    let _ = reply.send(Err(error));
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
        first: (i64, Reply),
    ) -> Option<Error> {
        let mut request = Some(first);
        // When the last answer came, or when the oldest of the waiting keepalives was sent, if that
        // was later.
        let mut last_progress = SystemEnv.now();
        loop {
            if let Some((lease, reply)) = request.take() {
                let now = SystemEnv.now();
                if self.unanswered.0.is_empty() {
                    last_progress = now;
                }
                self.unanswered.sent(lease, now, reply);
                keeper.id = lease;
                match tokio::time::timeout(SILENT_KEEPALIVES, keeper.keep_alive()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Some(failure(error).into()),
                    Err(_) => return Some(late(SILENT_KEEPALIVES)),
                }
            }
            let waits = !self.unanswered.0.is_empty();
            let silent = async {
                SystemEnv.sleep((last_progress + SILENT_KEEPALIVES).since(SystemEnv.now())).await
            };
            tokio::select! {
                // Answers first: if this task was delayed, it must not give up a stream whose
                // answers have arrived.
                biased;
                message = stream.message() => match message {
                    Ok(Some(message)) => {
                        last_progress = SystemEnv.now();
                        for (reply, lease) in self.unanswered.answered(message.id(), message.ttl()) {
                            let _ = reply.send(Ok(lease));
                        }
                    }
                    Ok(None) => {
                        let message = "etcd ended the keepalive stream";
                        return Some(Error::new(ErrorKind::Unavailable, message));
                    }
                    Err(error) => return Some(failure(error).into()),
                },
                next = self.inbox.recv() => request = Some(next?),
                () = silent, if waits => return Some(late(SILENT_KEEPALIVES)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// The keepalives that an answer is for, and from when each lease counts.
    fn answered(sent: &mut Unanswered<u8>, lease: i64, ttl: i64) -> Vec<(u8, Option<Instant>)> {
        let answers = sent.answered(lease, ttl).into_iter();
        answers.map(|(which, lease)| (which, lease.map(|lease| lease.from))).collect()
    }

    #[test]
    fn an_answer_is_for_the_oldest_keepalive_of_its_lease() {
        let mut sent = Unanswered::default();
        for (which, lease) in [(1, 7), (2, 8), (3, 7)] {
            sent.sent(lease, at(which.into()), which);
        }
        assert_eq!(answered(&mut sent, 8, 3), [(2, Some(at(2)))]);
        assert_eq!(answered(&mut sent, 7, 2), [(1, Some(at(1)))]);
        assert_eq!(answered(&mut sent, 7, 2), [(3, Some(at(3)))]);
        assert_eq!(answered(&mut sent, 7, 2), []);
        assert!(sent.0.is_empty());
    }

    #[test]
    fn a_ttl_of_zero_or_less_answers_all_keepalives_of_a_lease_that_is_gone() {
        for ttl in [0, -1, i64::MIN] {
            let mut sent = Unanswered::default();
            for (which, lease) in [(1, 7), (2, 7), (3, 8)] {
                sent.sent(lease, at(which.into()), which);
            }
            assert_eq!(answered(&mut sent, 7, ttl), [(1, None), (2, None)]);
            assert_eq!(answered(&mut sent, 7, 5), []);
            assert_eq!(answered(&mut sent, 8, 5), [(3, Some(at(3)))]);
            assert!(sent.0.is_empty());
        }
    }
}
