//! Errors of a database that are not known here.

use std::sync::Arc;

use lock_core::{Backend, ErrorKind, LockClient};
use tokio::time::timeout;

use super::{LEASE, WAIT, request_for};

/// The database refuses every new row with an error that is not known here, and that says "no
/// upstream". An acquire without a limit tries again for one longest lease, and then ends.
pub(crate) async fn an_unknown_error_is_final(store: &Arc<dyn Backend>) {
    let error = store.try_acquire(&request_for("job", LEASE / 30)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let client = LockClient::new(Arc::clone(store));
    let acquire = client.lock("job").lease(LEASE / 30).acquire();
    let error = timeout(WAIT, acquire).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("no upstream"), "{error}");
}
