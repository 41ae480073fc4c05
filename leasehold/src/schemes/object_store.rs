//! `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` — locks in a bucket.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    backend_object_store::connect(url.expose()).await
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "the store is no SQL database, and has no schema";
    Err(Error::new(ErrorKind::Unsupported, message).at("object-store", "schema"))
}
