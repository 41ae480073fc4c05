//! `mysql://USER@HOST/DATABASE` — locks in a MySQL or MariaDB database.

use std::sync::Arc;

use lock_core::{Backend, Error};

use crate::StoreUrl;

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    backend_sql::mysql::connect(url.expose()).await
}

pub(super) fn schema(url: &StoreUrl) -> Result<String, Error> {
    backend_sql::mysql::schema(url.expose())
}
