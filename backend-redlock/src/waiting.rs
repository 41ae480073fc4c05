//! A waiter: one entry in the nodes' queues.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Attempt, Enqueued, Error, Request, Signal, Waiter};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use crate::{
    quorum::{nodes::Quorum, pushes::Wake},
    steps::{acquire, free, release},
    tunables::CALL_GRACE,
};

#[derive(Debug)]
struct QueuedWaiter {
    quorum: Arc<Quorum>,
    request: Request,
    number: u64,
    calls: UnboundedReceiver<Wake>,
    /// The nodes that have called it since its last attempt, and until when it waits for more
    /// calls.
    by: Vec<usize>,
    until: Option<Instant>,
}

/// Makes an attempt. If the lock is held, the attempt joins the queues.
pub(crate) async fn enqueue(quorum: &Arc<Quorum>, request: &Request) -> Result<Enqueued, Error> {
    let rank = quorum.clock().unwrap_or_default();
    let channel = quorum.nodes[0].server.channel();
    let (number, entry, calls) = quorum.wake.enter(request.owner, channel, rank);
    let (own, request) = (Arc::clone(quorum), request.clone());
    let waiter = QueuedWaiter { quorum: own, request, number, calls, by: Vec::new(), until: None };
    let request = &waiter.request;
    let made = acquire::attempt(quorum, request, Some(&entry), false).await;
    if !matches!(made, Ok(Attempt::Granted(_) | Attempt::Busy(_))) {
        free::leave_queues(quorum, request, entry.given());
    }
    Ok(match made? {
        Attempt::Granted(grant) => Enqueued::Granted(grant),
        Attempt::Busy(busy) => Enqueued::Waiting(Box::new(waiter), busy),
        Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
    })
}

impl Drop for QueuedWaiter {
    fn drop(&mut self) {
        self.quorum.wake.leave(self.request.owner, self.number);
    }
}

#[async_trait]
impl Waiter for QueuedWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            let grace = async {
                match self.until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                call = self.calls.recv() => match call {
                    Some(Wake::By(node)) => {
                        if !self.by.contains(&node) {
                            self.by.push(node);
                        }
                        if self.by.len() < self.quorum.majority() {
                            self.until.get_or_insert_with(|| Instant::now() + CALL_GRACE);
                            continue;
                        }
                    }
                    Some(Wake::Missed) => {}
                    None => return Signal::Lost("a repeat has taken over the queue entry".into()),
                },
                () = grace => {}
            }
            self.by.clear();
            self.until = None;
            return Signal::Recheck;
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let left = release::abandon(&self.quorum, &self.request).await;
        left.map_err(|error| error.at("redlock", "leave").on(&self.request.name))
    }
}
