//! The texts of scripts, which a server that does not know them gets once on each connection.
//!
//! After a restart thousands of calls may find at the same time that the server does not know their
//! script, and each text has kilobytes. So one call sends the text, and the others wait for it.

use std::{collections::HashMap, sync::Arc};

use lock_core::Mutex;
use redis::{ErrorKind as Driver, RedisError, ServerErrorKind};
use tokio::sync::OnceCell;

/// The texts that were sent, by their hashes.
#[derive(Debug, Default)]
pub(super) struct SentScripts(Mutex<HashMap<String, Arc<OnceCell<()>>>>);

impl SentScripts {
    /// Whether a call on this connection has sent the text. The first caller that finds it unset
    /// sends the text.
    pub(super) fn sent(&self, hash: &str) -> Arc<OnceCell<()>> {
        Arc::clone(self.0.lock().entry(hash.to_owned()).or_default())
    }

    /// The server has forgotten the text since then.
    pub(super) fn forget(&self, hash: &str, sent: &Arc<OnceCell<()>>) {
        let mut texts = self.0.lock();
        if texts.get(hash).is_some_and(|known| Arc::ptr_eq(known, sent)) {
            texts.remove(hash);
        }
    }
}

/// Whether the server does not know a script.
pub(crate) fn is_noscript(error: &RedisError) -> bool {
    error.kind() == Driver::Server(ServerErrorKind::NoScript)
}
