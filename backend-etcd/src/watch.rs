//! One watch for all places of a client.
//!
//! It never asks for the past, which etcd serves late: after each (re)connection all places are told to
//! look for themselves, and what ends after that is pushed. A place that is not told asks anyway. A stream
//! that hangs without an error is found by asking it how far it is.

use std::{sync::OnceLock, time::Duration};

use etcd_client::{EventType, WatchFilterType, WatchOptions};
use lock_core::Error;
use tokio::task::AbortHandle;

use crate::{
    error::{failure, late},
    queue::Places,
    rpc::Rpc,
};

/// Between two attempts to open the watch.
const PAUSE: Duration = Duration::from_millis(50);
/// While anybody waits, a stream that has said nothing for so long is asked how far it is, and one that
/// does not answer for as long again is given up.
const SILENCE: Duration = Duration::from_secs(1);

/// The watch's task, which ends with it.
#[derive(Debug, Default)]
pub(crate) struct Watch(OnceLock<AbortHandle>);

impl Watch {
    /// Starts the task when the first place is made.
    pub(crate) fn start(&self, rpc: &Rpc, prefix: &str, places: &Places) {
        self.0.get_or_init(|| {
            let (rpc, prefix, places) = (rpc.clone(), prefix.to_owned(), places.clone());
            tokio::spawn(run(rpc, prefix, places)).abort_handle()
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

async fn run(rpc: Rpc, prefix: String, places: Places) {
    loop {
        if let Err(error) = watch(&rpc, &prefix, &places).await {
            tracing::debug!(%error, "the watch ended");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Watches until the stream ends.
async fn watch(rpc: &Rpc, prefix: &str, places: &Places) -> Result<(), Error> {
    let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
    // etcd takes an empty key for a missing one.
    let options = if prefix.is_empty() { options.with_all_keys() } else { options.with_prefix() };
    let turn = rpc.members.turn();
    let (mut asks, mut stream) = rpc.watch(prefix, options).await?.split();
    let mut is_asked = false;
    loop {
        let answer = match tokio::time::timeout(SILENCE, stream.message()).await {
            Ok(answer) => answer.map_err(failure)?,
            Err(_) if places.is_empty() => {
                is_asked = false;
                continue;
            }
            Err(_) if is_asked => {
                rpc.members.give_up(turn);
                return Err(late(SILENCE));
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
            places.wake_all();
        }
        if answer.canceled() {
            return Ok(());
        }
        for event in answer.events() {
            let Some(pair) = event.kv().filter(|_| event.event_type() == EventType::Delete) else {
                continue;
            };
            if let Ok(key) = pair.key_str() {
                places.ended(key, pair.mod_revision());
            }
        }
    }
}
