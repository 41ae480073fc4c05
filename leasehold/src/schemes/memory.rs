//! `memory:` — the locks of this process.

use std::sync::{Arc, LazyLock};

use lock_core::{Backend, Error, ErrorKind, Memory};

use crate::StoreUrl;

/// One store for the whole process, because two clients of one URL must exclude each other.
static PROCESS: LazyLock<Memory> = LazyLock::new(Memory::new);

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    if url.expose() != "memory:" {
        let message = format!("{url} is no store; it must be memory: with nothing after it");
        return Err(Error::new(ErrorKind::InvalidInput, message).at("memory", "connect"));
    }
    Ok(Arc::new(PROCESS.clone()))
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "the store is no SQL database, and has no schema";
    Err(Error::new(ErrorKind::Unsupported, message).at("memory", "schema"))
}
