//! Names that stand below each other.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_free_while_one_below_it_is_held() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("a/b")).await;
    granted(&two, &request("a")).await;
}
