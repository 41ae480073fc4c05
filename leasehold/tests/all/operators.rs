//! The calls of operators, by the client.

use std::time::Duration;

use leasehold::{
    ClientOptions, ErrorKind, Init, LockClient, OwnerLabel, ReleaseOutcome, memory::Memory,
};

fn client(store: &Memory) -> LockClient {
    let label = "operator".parse::<OwnerLabel>().unwrap();
    let options = ClientOptions::new().with_label(label);
    LockClient::with_options(std::sync::Arc::new(store.clone()), options).unwrap()
}

#[tokio::test]
async fn a_client_inspects_lists_checks_and_takes_away() {
    let store = Memory::new();
    let (one, two) = (client(&store), client(&store));
    assert_eq!(two.inspect("job").await.unwrap(), None);
    assert_eq!(two.list().await.unwrap(), []);
    let job = one.lock("job").acquire().await.unwrap();
    let another = one.lock("another").acquire().await.unwrap();

    let state = two.inspect("job").await.unwrap().unwrap();
    assert_eq!((state.token, state.holder.unwrap().owner), (job.token(), job.owner()));
    let names: Vec<_> =
        two.list().await.unwrap().iter().map(|state| state.name.to_string()).collect();
    assert_eq!(names, ["another", "job"]);

    assert_eq!(two.force_release("job").await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(two.force_release("job").await.unwrap(), ReleaseOutcome::NotHeld);
    let error = job.release().await.unwrap_err();
    assert!(error.is_lost() || error.kind() == ErrorKind::NotHeld, "{error}");
    another.release().await.unwrap();

    let check = two.check().await.unwrap();
    assert_eq!((check.backend, check.clock_difference_micros), ("memory", None));
    assert_eq!((check.highest_token, check.tokens_used_up()), (None, false));
    assert_eq!(check.guarantees, two.guarantees());
}

#[tokio::test]
async fn settings_are_set_by_the_client() {
    let client = client(&Memory::new());
    let longest = Duration::from_secs(5);
    let settings = client.init(&Init::new().with_longest_lease(longest)).await.unwrap();
    assert_eq!((settings.longest_lease, client.guarantees().longest_lease), (longest, longest));
    let error = client.init(&Init::new().with_restored(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_bad_name_and_a_closed_client_are_errors() {
    let client = client(&Memory::new());
    let error = client.inspect("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("between 1 and 255"), "{error}");
    client.close().await;
    for error in [
        client.inspect("job").await.unwrap_err(),
        client.force_release("job").await.unwrap_err(),
        client.list().await.unwrap_err(),
        client.check().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}
