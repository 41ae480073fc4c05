//! `redis://HOST:PORT`, `rediss://`, `unix:PATH` — locks in one Redis; `redis+sentinel://…/MASTER`
//! — in one that sentinels fail over; `redis+cluster://` — in a Redis Cluster;
//! `redis://HOST:PORT?layout=LAYOUT` — the locks of another library.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    if super::names_layout(&url) {
        return super::open_layout(url).await;
    }
    backend_redis::connect(url.expose()).await
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "the store is no SQL database, and has no schema";
    Err(Error::new(ErrorKind::Unsupported, message).at("redis", "schema"))
}
