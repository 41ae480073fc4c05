//! A bucket, in a server of S3.

use std::time::Duration;

use super::{behind_proxy, connect};
use crate::proof::StartedStore;
use conformance_tests::SetUpError;
use leasehold::Init;
use servers::{S3, Server as _};

pub(super) async fn start() -> Result<StartedStore, SetUpError> {
    let server = S3::start().await?;
    let address = server.address();
    let store = connect(S3::store_url_at(address)).await?;
    store.init(&Init::new().with_longest_lease(Duration::from_secs(2))).await?;
    store.close().await;
    behind_proxy(address, server, S3::store_url_at).await
}
