//! Per method: the faults that a test ordered for its calls, and counts of what happened to them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{oneshot, watch};

#[derive(Debug, Default)]
pub(super) struct State {
    methods: Mutex<HashMap<String, Method>>,
    /// The connections to the server.
    pub(super) connections: Count,
}

/// How many there are now of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Count(watch::Sender<usize>);

/// One of them, until it is dropped.
pub(super) struct Counted(Count);

impl Count {
    pub(super) fn one(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(self.clone())
    }

    pub(super) async fn none(&self) {
        // It cannot fail: the sender lives.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// The fate of the calls of one method.
#[derive(Debug, Default)]
pub(super) struct Method {
    pub(super) opened: u64,
    /// Calls that were opened before this one are stuck.
    pub(super) stuck: u64,
    pub(super) swallowed: u64,
    /// How long each of the server's messages is kept back.
    pub(super) slow: Duration,
    /// The next call whose request contains this is held.
    pub(super) wanted: Option<Vec<u8>>,
    pub(super) held: Option<Held>,
    /// The message with which calls are refused.
    pub(super) refuses: Option<&'static str>,
    pub(super) refused: u64,
}

/// A call that waits in the proxy.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) go: oneshot::Sender<()>,
    /// Ends when the server has answered.
    pub(super) answered: oneshot::Receiver<()>,
}

impl State {
    pub(super) fn methods(&self) -> MutexGuard<'_, HashMap<String, Method>> {
        self.methods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, method: &str) -> u64 {
        let mut methods = self.methods();
        let method = methods.entry(method.to_owned()).or_default();
        method.opened += 1;
        method.opened
    }

    /// How long a message of the server to this call is kept back; `None` if it is lost, which is
    /// counted.
    pub(super) fn delay(&self, method: &str, call: u64) -> Option<Duration> {
        let mut methods = self.methods();
        let Some(method) = methods.get_mut(method) else { return Some(Duration::ZERO) };
        let swallows = call <= method.stuck;
        method.swallowed += u64::from(swallows);
        (!swallows).then_some(method.slow)
    }

    /// The message with which a call is refused; counts one if so.
    pub(super) fn refuses(&self, method: &str) -> Option<&'static str> {
        let mut methods = self.methods();
        let method = methods.get_mut(method)?;
        method.refused += u64::from(method.refuses.is_some());
        method.refuses
    }

    pub(super) fn wants(&self, method: &str) -> bool {
        self.methods().get(method).is_some_and(|method| method.wanted.is_some())
    }

    /// If it is this request that is to be held: what tells it to go on, and what tells that it was
    /// answered.
    pub(super) fn hold(
        &self,
        method: &str,
        request: &[u8],
    ) -> Option<(oneshot::Receiver<()>, oneshot::Sender<()>)> {
        let mut methods = self.methods();
        let method = methods.get_mut(method)?;
        let contains = |wanted: &Vec<u8>| {
            wanted.is_empty() || request.windows(wanted.len()).any(|window| window == wanted)
        };
        method.wanted.take_if(|wanted| contains(wanted))?;
        let ((go, gone), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        method.held = Some(Held { go, answered });
        Some((gone, answer))
    }
}
