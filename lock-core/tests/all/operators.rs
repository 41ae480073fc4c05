//! The client's calls for operators.

use std::time::Duration;

use lock_core::{ClientOptions, ErrorKind};

use crate::support::Stub;

#[tokio::test(start_paused = true)]
async fn a_call_ends_even_if_the_store_does_not_answer() {
    let stub = Stub::new();
    let options = ClientOptions::new().with_call_timeout(Duration::from_secs(7));
    let client = stub.client_with(options);
    stub.hold("inspect");
    stub.hold("list");
    for error in [
        client.inspect("job").await.unwrap_err(),
        client.check().await.unwrap_err(),
        client.list().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("within 7s"), "{error}");
        assert!(!error.is_not_acquired(), "{error}");
    }
    stub.let_go("inspect");
    assert_eq!(client.inspect("job").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_name_on_two_pages_of_a_listing_is_listed_once_and_in_order() {
    let stub = Stub::new();
    let client = stub.client();
    let mut guards = Vec::new();
    for name in ["c", "a", "b"] {
        guards.push(client.lock(name).acquire().await.unwrap());
    }
    let names: Vec<_> =
        client.list().await.unwrap().iter().map(|state| state.name.to_string()).collect();
    assert_eq!((names, stub.calls("list")), (vec!["a".into(), "b".into(), "c".into()], 2));
}
