//! `zookeeper://HOST:PORT,HOST:PORT/PREFIX` — locks in ZooKeeper.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    backend_zookeeper::connect(url.expose()).await
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "the store is no SQL database, and has no schema";
    Err(Error::new(ErrorKind::Unsupported, message).at("zookeeper", "schema"))
}
