//! The first use of a plain Redis since its start.
//!
//! A client that finds no record of this run cannot know whether the store is new or has lost its
//! data. In the second case a grant must wait for one longest lease. But if nobody has used the
//! store since the server's start, no lease can be left once the server has been up for longer than
//! that, so the wait counts from that start. The *witness* tells: each client loads it before the
//! store can open, and puts it back.
//!
//! 1. A script writes a candidate, with a nonce, where there is no record of this run.
//! 2. The client asks for the witness. A client that opened the store before has loaded it by now;
//!    one that opens it after this finds the candidate gone, or removes it.
//! 3. The client loads the witness.
//! 4. A script makes the record: with a wait from the server's start, which may be over, if the
//!    witness was missing, or with a whole wait if it was there.
//!    It does so only if the candidate is this client's own and younger than a second, so that the
//!    witness was loaded just now.
//!
//! `tools/verification/protocol-models` searches all orders of these steps, with a rule left out.

use lock_core::{Env as _, Error, SystemEnv};
use redis::Value;

use crate::{
    connection::{
        Connection, error,
        handshake::{Handshake, Seen},
    },
    guarantees::promises,
    keys::Bucket,
    scripts::{self, reply},
    store::{Store, run::call},
    tunables::{CANDIDATE_PAUSE, CANDIDATE_TRIES},
};

impl Store {
    /// Makes the record of this run, if the wait may count from the server's start. In any case the
    /// witness is there when this returns without an error.
    pub(super) async fn first_use(
        &self,
        connection: &Connection,
        bucket: Bucket,
    ) -> Result<(), Error> {
        // All calls that come meanwhile wait for the one that is first.
        let _first = connection.first_use.lock().await;
        let handshake = connection.handshake().await?;
        if handshake.seen.record {
            return Ok(());
        }
        if promises::wait_of_first_use(&handshake.identity, self.agreed()).is_none() {
            for _ in 0..CANDIDATE_TRIES {
                if self.try_to_open(connection, &handshake, bucket).await? {
                    break;
                }
                tokio::time::sleep(CANDIDATE_PAUSE).await;
            }
        }
        connection.load_witness().await?;
        connection.add(&handshake, Seen::ALL);
        Ok(())
    }

    /// Whether there is nothing more to do. `false` if another client is about to open the store.
    async fn try_to_open(
        &self,
        connection: &Connection,
        handshake: &Handshake,
        bucket: Bucket,
    ) -> Result<bool, Error> {
        let nonce = SystemEnv.random();
        let step = async |witness| {
            let (keys, own) = ([self.keys.epoch(bucket)], scripts::first_use(nonce, witness));
            let arguments = self.in_epoch(handshake, &own);
            match call(connection, false, &scripts::FIRST_USE, &keys, &arguments).await {
                Ok(answer) => Ok(word(&answer)),
                Err(error) if error.is_io_error() => Err(error::of_command(&error)),
                // What the server refuses, such as a write that needs memory, it also refuses to
                // the caller's own script, which then reports it.
                Err(_) => Ok(None),
            }
        };
        match step(None).await?.as_deref() {
            Some("candidate") => {}
            other => return Ok(other != Some("again")),
        }
        let Some(known) = connection.has_witness().await? else { return Ok(true) };
        if !connection.load_witness().await? {
            return Ok(true);
        }
        Ok(step(Some(known)).await?.as_deref() != Some("again"))
    }
}

/// The first word of an answer.
fn word(answer: &Value) -> Option<String> {
    let parts = reply::list(answer.clone()).ok()?;
    Some(reply::text(parts.first()?).ok()?.to_owned())
}
