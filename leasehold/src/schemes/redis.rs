//! `redis://HOST:PORT`, `rediss://`, `unix:PATH` — locks in one Redis; `redis+sentinel://…/MASTER` —
//! in one that sentinels fail over; `redis+cluster://` — in a Redis Cluster.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    backend_redis::connect(url.expose()).await
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "the store is no SQL database, and has no schema";
    Err(Error::new(ErrorKind::Unsupported, message).at("redis", "schema"))
}
