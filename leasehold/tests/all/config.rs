//! A client as a configuration file describes it.

use std::time::Duration;

use leasehold::{ClientOptions, Config, ErrorKind, OwnerLabel, TryAcquire};

#[tokio::test]
async fn a_client_comes_from_a_toml_file() {
    let text = r#"
        url = "memory:"
        [options]
        label = "billing"
        lease = "1min 30s"
    "#;
    let config: Config = toml::from_str(text).unwrap();
    assert_eq!(config.options.label, OwnerLabel::new("billing").unwrap());
    assert_eq!(config.options.lease, Duration::from_secs(90));
    assert_eq!(config.options.call_timeout, ClientOptions::default().call_timeout);

    // The lease of the file is really used: it is longer than the store allows.
    let client = config.connect().await.unwrap();
    let error = client.lock("from-toml").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("1m 30s"), "{error}");
}

#[tokio::test]
#[cfg(feature = "sqlite")]
async fn what_the_file_says_reaches_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "url = 'sqlite:{}/locks.db?strategy=optimistic'\noptions = {{ label = 'billing', lease = '20s' }}",
        folder.path().display()
    );
    let config: Config = toml::from_str(&text).unwrap();
    let client = config.connect().await.unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(10), "{:?}", guard.remaining());
    let state = client.inspect(guard.name()).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().label, OwnerLabel::new("billing").unwrap());
    guard.release().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn a_client_comes_from_json_and_needs_only_the_url() {
    let config: Config = serde_json::from_str(r#"{"url": "memory:"}"#).unwrap();
    assert_eq!(config, Config::new("memory:".try_into().unwrap()));
    let client = config.connect().await.unwrap();
    client.lock("from-json").acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn mistakes_in_a_file_are_named_and_passwords_are_not() {
    for (text, word) in [
        ("url = 'redys://u:hunter2@h'", "\"redys\""),
        ("url = 'u:hunter2@h'", "\"u\""),
        ("url = ''", "empty"),
        ("URL = 'memory:'", "`URL`"),
        ("url = 'memory:'\noptions.leese = '1s'", "`leese`"),
        ("url = 'memory:'\noptions.lease = 'soon'", "\"soon\""),
        ("url = 'memory:'\noptions.label = \"a\\u0001b\"", "control character"),
    ] {
        let error = toml::from_str::<Config>(text).unwrap_err();
        let message = error.message();
        assert!(message.contains(word), "{word} in {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[tokio::test]
async fn options_are_checked_before_the_store_is_touched() {
    let options = ClientOptions::new().with_call_timeout(Duration::ZERO);
    let error = leasehold::connect_with("memory:", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("call_timeout"), "{error}");
}

#[tokio::test]
async fn two_clients_of_one_url_exclude_each_other() {
    let (one, two) = (
        leasehold::connect("memory:").await.unwrap(),
        leasehold::connect("memory:").await.unwrap(),
    );
    let guard = one.lock("shared").acquire().await.unwrap();
    let answer = two.lock("shared").try_acquire().await.unwrap();
    assert!(matches!(answer, TryAcquire::Busy(_)));
    guard.release().await.unwrap();

    let error = leasehold::connect("memory:elsewhere").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = leasehold::schema("memory:").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
