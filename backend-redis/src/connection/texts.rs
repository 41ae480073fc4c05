//! The scripts' texts, which a server that has forgotten them gets once on each connection.
//!
//! After a restart thousands of calls may find at a time that the server does not know their script, and each text has
//! kilobytes: one call brings it, and the others wait for that.

use std::{collections::HashMap, sync::Arc};

use lock_core::Mutex;
use redis::{ErrorKind as Driver, RedisError, ServerErrorKind};
use tokio::sync::OnceCell;

/// The texts that were sent, by the hash of each.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<HashMap<String, Arc<OnceCell<()>>>>);

impl Texts {
    /// Whether one of the calls on this connection has brought the text; who finds that none has, brings it.
    pub(super) fn sent(&self, hash: &str) -> Arc<OnceCell<()>> {
        Arc::clone(self.0.lock().entry(hash.to_owned()).or_default())
    }

    /// The server has forgotten it since.
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
