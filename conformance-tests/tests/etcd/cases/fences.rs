//! A fence for the user's own data.

use lock_core::FencingToken;

use super::start;
use crate::Fence;

#[tokio::test(flavor = "multi_thread")]
async fn what_no_fence_has_written_is_not_overwritten() {
    let etcd = start().await;
    let client =
        etcd_client::Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let (fence, token) = (Fence::new("fences/"), FencingToken::MAX);
    client.kv_client().put("fences/data", "-1", None).await.unwrap();
    let answer = client.kv_client().txn(fence.guard("data", token, [])).await.unwrap();
    assert_eq!(etcd.ctl(&["get", "fences/data", "--print-value-only"]).await.unwrap(), "-1");
    let refused = fence.admitted("data", token, &answer);
    assert!(matches!(refused, Err(crate::FenceError::Unreadable(_))), "{refused:?}");
}
