//! One watch for all waiters of a client.
//!
//! It never asks for the past, which etcd serves late: after each (re)connection all waiters look for themselves, and
//! later ends are pushed. A waiter that is not woken polls. A request for progress finds a stream that hangs without
//! an error.

use std::sync::OnceLock;

use etcd_client::{EventType, WatchFilterType, WatchOptions};
use lock_core::Error;
use tokio::task::AbortHandle;

use super::queue::Waiters;
use crate::{
    rpc::{Rpc, failure, late},
    tunables::{SILENT_WATCH, WATCH_PAUSE},
};

/// The watch's task, which ends with it.
#[derive(Debug, Default)]
pub(crate) struct Watch(OnceLock<AbortHandle>);

impl Watch {
    /// Starts the task when the first entry is made.
    pub(crate) fn start(&self, rpc: &Rpc, prefix: &str, waiters: &Waiters) {
        self.0.get_or_init(|| {
            let (rpc, prefix, waiters) = (rpc.clone(), prefix.to_owned(), waiters.clone());
            tokio::spawn(run(rpc, prefix, waiters)).abort_handle()
        });
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn run(rpc: Rpc, prefix: String, waiters: Waiters) {
    loop {
        if let Err(error) = watch(&rpc, &prefix, &waiters).await {
            tracing::debug!(%error, "the watch ended");
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// Watches until the stream ends.
async fn watch(rpc: &Rpc, prefix: &str, waiters: &Waiters) -> Result<(), Error> {
    let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
    // etcd takes an empty key for a missing one.
    let options = if prefix.is_empty() { options.with_all_keys() } else { options.with_prefix() };
    let position = rpc.members.position();
    let (mut asks, mut stream) = rpc.watch(prefix, options).await?.split();
    let mut is_asked = false;
    loop {
        let answer = match tokio::time::timeout(SILENT_WATCH, stream.message()).await {
            Ok(answer) => answer.map_err(failure)?,
            Err(_) if waiters.is_empty() => {
                is_asked = false;
                continue;
            }
            Err(_) if is_asked => {
                rpc.members.give_up(position);
                return Err(late(SILENT_WATCH));
            }
            Err(_) => {
                asks.request_progress().await.map_err(failure)?;
                is_asked = true;
                continue;
            }
        };
        let Some(answer) = answer else { return Ok(()) };
        is_asked = false;
        if answer.created() {
            waiters.wake_all();
        }
        if answer.canceled() {
            return Ok(());
        }
        for event in answer.events() {
            let Some(pair) = event.kv().filter(|_| event.event_type() == EventType::Delete) else {
                continue;
            };
            if let Ok(key) = pair.key_str() {
                waiters.ended(key, pair.mod_revision());
            }
        }
    }
}
