//! The witness of a store's use: a script in the server's cache, which nobody ever runs.
//!
//! FLUSHALL and DEL leave it there, and a replica does not get it. It ends with the server's
//! process, or by SCRIPT FLUSH. So if it is missing, nobody has used the store since the server's
//! start: see `store/first_use.rs`. It is loaded, never sent by EVAL: Redis may drop scripts that
//! came by EVAL.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::Error;
use redis::{Cmd, RedisError, Script};

use crate::{
    connection::error,
    keys::{Bucket, Keys},
    scripts,
    settings::Settings,
};

/// The witness of one store: one prefix in one database.
#[derive(Debug)]
pub(super) struct Witness {
    text: String,
    hash: String,
    epoch: String,
    /// The user may not use it, so the client does not try again on this connection.
    refused: AtomicBool,
}

impl Witness {
    pub(super) fn of(settings: &Settings) -> Self {
        let text = scripts::server("witness")
            .replace("DATABASE", &settings.database.to_string())
            .replace("PREFIX", &settings.prefix);
        let hash = Script::new(&text).get_hash().to_owned();
        let epoch = Keys::new(&settings.prefix).epoch(Bucket::FIRST);
        Self { text, hash, epoch, refused: AtomicBool::new(false) }
    }

    pub(super) fn is_permitted(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn ask_for_run(&self) -> Cmd {
        let mut ask = redis::cmd("HMGET");
        ask.arg(&self.epoch).arg("run");
        ask
    }

    pub(super) fn ask(&self) -> Cmd {
        let mut ask = redis::cmd("SCRIPT");
        ask.arg("EXISTS").arg(&self.hash);
        ask
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The server has refused one of these commands.
    ///
    /// # Errors
    /// An error that may pass, such as that of a busy server.
    pub(super) fn refused(&self, refusal: &RedisError) -> Result<(), Error> {
        let error = error::of_command(refusal);
        if error.is_retryable() && !error::is_unknown_refusal(refusal) {
            return Err(error);
        }
        self.refused.store(true, Ordering::Relaxed);
        Ok(())
    }
}
