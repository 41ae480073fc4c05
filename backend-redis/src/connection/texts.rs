//! The scripts' texts, which a server that has forgotten them gets once on each connection.
//!
//! After a restart thousands of calls may find at a time that the server does not know their script, and each text has
//! kilobytes: one call brings it, and the others wait for that.

use std::{collections::HashMap, sync::Arc};

use lock_core::{Error, Mutex};
use redis::{Cmd, ErrorKind as Driver, RedisError, ServerErrorKind, Value};
use tokio::sync::OnceCell;

use super::connection::Connection;

/// The texts that were sent, by the hash of each.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<HashMap<String, Arc<OnceCell<()>>>>);

impl Texts {
    fn sent(&self, hash: &str) -> Arc<OnceCell<()>> {
        Arc::clone(self.0.lock().entry(hash.to_owned()).or_default())
    }

    /// The server has forgotten it since.
    fn forget(&self, hash: &str, sent: &Arc<OnceCell<()>>) {
        let mut texts = self.0.lock();
        if texts.get(hash).is_some_and(|known| Arc::ptr_eq(known, sent)) {
            texts.remove(hash);
        }
    }
}

impl Connection {
    /// Runs a script that the server does not know: by its text, which also loads it, or by its hash behind another call
    /// that brings the text.
    pub(crate) async fn bring(
        &self,
        asking: bool,
        hash: &str,
        by_text: &Cmd,
        by_hash: &Cmd,
    ) -> Result<Result<Value, RedisError>, Error> {
        // The second time where the text was sent long ago, and forgotten.
        for _ in 0..2 {
            let sent = self.texts.sent(hash);
            let mut own = None;
            let bring = async {
                own = Some(self.ask(asking, by_text).await?);
                Ok::<_, Error>(())
            };
            sent.get_or_try_init(|| bring).await?;
            if let Some(answer) = own {
                return Ok(answer);
            }
            let answer = self.ask(asking, by_hash).await?;
            if !answer.as_ref().is_err_and(is_noscript) {
                return Ok(answer);
            }
            self.texts.forget(hash, &sent);
        }
        self.ask(asking, by_text).await
    }
}

/// Whether the server does not know a script.
pub(crate) fn is_noscript(error: &RedisError) -> bool {
    error.kind() == Driver::Server(ServerErrorKind::NoScript)
}
