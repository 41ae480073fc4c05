//! A store whose records have another version.

use lock_core::{ErrorKind, FencingToken, Init, RecordWrite, Renewal};

use crate::support::{
    LEASE, connect, eventually_granted, granted, pair, plain, request, request_for, sessions,
};

/// Also at a client that knows the settings of this version. An attempt leaves no entry.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_refused_in_every_step() {
    let (zookeeper, [one, _]) = pair().await;
    let held = granted(&*one, &request_for("held", LEASE)).await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let path = "/leasehold/%leasehold/settings";
    let (settings, _) = client.get_data(path).await.unwrap();
    let settings = String::from_utf8(settings).unwrap();
    let later = settings.replacen("\"version\":1", "\"version\":2", 1);
    assert_ne!(later, settings);
    let before = sessions(&client).await;
    client.set_data(path, later.as_bytes(), None).await.unwrap();
    let free = request();
    for error in [
        one.try_acquire(&free).await.unwrap_err(),
        one.enqueue(&free).await.unwrap_err(),
        one.enqueue(&request_for("held", LEASE)).await.unwrap_err(),
        one.read_record(&free.name).await.unwrap_err(),
        one.inspect(&free.name).await.unwrap_err(),
        one.init(&Init::new()).await.unwrap_err(),
        one.quarantine().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("version 2"), "{error}");
    }
    let renewal = one.renew(&[&held], held.from + LEASE / 2).await.pop();
    let Some(Renewal::Unknown(renewal)) = renewal else { panic!("{renewal:?}") };
    let write = RecordWrite::new("value", LEASE).unwrap();
    let above = FencingToken::new(held.token.get() + 1).unwrap();
    for error in [
        renewal,
        one.write_record(&held, &write).await.unwrap_err(),
        one.raise(&held, above).await.unwrap_err(),
        one.list(None).await.unwrap_err(),
        one.force_release(&held.name).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("version 2"), "{error}");
    }
    let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
    let error = backend_zookeeper::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    client.set_data(path, settings.as_bytes(), None).await.unwrap();
    let renewals = one.renew(&[&held], held.from + LEASE / 2).await;
    assert!(matches!(renewals[..], [Renewal::Renewed { .. }]), "{renewals:?}");
    let again = connect(&zookeeper.endpoints(), "20s").await;
    eventually_granted(&*again).await;
    // The session of the attempts would keep their entries.
    assert!(sessions(&client).await.starts_with(&before), "a session has ended");
}
