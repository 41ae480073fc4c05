//! `postgres://USER@HOST/DATABASE` — locks in a PostgreSQL database; with `?layout=shedlock`
//! those of ShedLock's table.

use std::sync::Arc;

use lock_core::{Backend, Error};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    if super::names_layout(&url) {
        return super::open_layout(url).await;
    }
    backend_sql::postgres::connect(url.expose()).await
}

pub(super) fn schema(url: &StoreUrl) -> Result<String, Error> {
    if super::names_layout(url) {
        return super::schema_of_layout(url);
    }
    backend_sql::postgres::schema(url.expose())
}
