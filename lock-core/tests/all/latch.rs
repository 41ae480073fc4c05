//! Latches, and what a leader publishes: both are records.

use std::time::Duration;

use lock_core::{ErrorKind, Latch, LockClient, testing::TestStore};

use crate::support::{Fault, Stub, soon};

const SECOND: Duration = Duration::from_secs(1);

fn latch(client: &LockClient) -> Latch {
    client.latch("batch 7", ["a", "b"])
}

#[tokio::test(start_paused = true)]
async fn a_latch_opens_when_each_part_is_counted_down_and_a_repeat_counts_once() {
    let stub = Stub::new();
    let (one, other) = (latch(&stub.client()), latch(&stub.client()));
    let waiting = tokio::spawn(async move { other.wait().await });
    assert_eq!(one.open_parts().await.unwrap(), ["a", "b"]);
    one.count_down("a").await.unwrap();
    let writes = stub.calls("write-record");
    one.count_down("a").await.unwrap();
    assert_eq!(stub.calls("write-record"), writes, "what was counted needs no write");
    assert_eq!(one.open_parts().await.unwrap(), ["b"]);
    tokio::time::sleep(60 * SECOND).await;
    assert!(!waiting.is_finished());
    one.count_down("b").await.unwrap();
    soon("the latch", waiting).await.unwrap().unwrap();
    assert!(one.open_parts().await.unwrap().is_empty());
    assert!(stub.becomes_free("batch 7").await);
}

#[tokio::test(start_paused = true)]
async fn who_waits_reads_the_store_each_second() {
    let stub = Stub::new();
    let waiter = latch(&stub.client());
    let waiting = tokio::spawn(async move { waiter.wait().await });
    tokio::time::sleep(60 * SECOND + SECOND / 2).await;
    assert_eq!(stub.calls("read-record"), 61);
    waiting.abort();
}

/// Each reads the parts under the lock, so no count is overwritten.
#[tokio::test(start_paused = true)]
async fn counts_of_several_clients_do_not_overwrite_each_other() {
    let stub = Stub::new();
    let parts: Vec<_> = (0..20).map(|part| part.to_string()).collect();
    let count = |part: &String| {
        let latch = stub.client().latch("job", &parts);
        let part = part.clone();
        tokio::spawn(async move { latch.count_down(part).await })
    };
    let counts: Vec<_> = parts.iter().map(count).collect();
    for count in counts {
        count.await.unwrap().unwrap();
    }
    assert!(stub.client().latch("job", &parts).open_parts().await.unwrap().is_empty());
}

/// A bare counter would read 0 and open.
#[tokio::test(start_paused = true)]
async fn lost_data_opens_no_latch() {
    let store = TestStore::new();
    let client = store.client();
    let one = latch(&client);
    one.count_down("a").await.unwrap();
    store.lose_records();
    let waiter = latch(&store.client());
    let waiting = tokio::spawn(async move { waiter.wait().await });
    tokio::time::sleep(3_600 * SECOND).await;
    one.count_down("b").await.unwrap();
    tokio::time::sleep(3_600 * SECOND).await;
    assert!(!waiting.is_finished());
    // A store that does not answer opens none either, and is asked again.
    store.set_available(false);
    tokio::time::sleep(3_600 * SECOND).await;
    assert!(!waiting.is_finished());
    store.set_available(true);
    one.count_down("a").await.unwrap();
    soon("the latch", waiting).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_latch_and_parts_of_nobody_are_refused() {
    let stub = Stub::new();
    let client = stub.client();
    let refused = async |latch: Latch| {
        let errors = [latch.count_down("a").await, latch.wait().await];
        errors.map(|answer| answer.unwrap_err().kind())
    };
    let one = latch(&client);
    let error = one.count_down("c").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"c\" is none of the latch's parts"), "{error}");
    for wrong in [
        client.latch("batch 7", Vec::<String>::new()),
        client.latch("a\nb", ["a"]),
        latch(&client).keep_for(Duration::ZERO),
        latch(&client).lease(3_600 * SECOND),
    ] {
        assert_eq!(refused(wrong).await, [ErrorKind::InvalidInput; 2]);
    }
    assert_eq!((stub.calls("acquire"), stub.calls("write-record")), (0, 0));
    one.count_down("b").await.unwrap();
    assert_eq!(refused(client.latch("batch 7", ["a", "b", "c"])).await, [ErrorKind::Config; 2]);
    client.close().await;
    assert_eq!(refused(one).await, [ErrorKind::Config; 2]);
}

/// The suite shows what the word says. Its text may be a secret.
#[tokio::test(start_paused = true)]
async fn a_leaders_word_is_not_shown_and_leads_no_more_after_a_release() {
    let stub = Stub::new();
    let election = stub.client().election("chief");
    let leader = election.campaign().await.unwrap();
    leader.monitor().publish("10.0.0.1:80").await.unwrap();
    let word = election.word().await.unwrap().unwrap();
    assert!(word.leads && !format!("{word:?}").contains("49"), "{word:?}");
    leader.release().await.unwrap();
    assert!(!election.word().await.unwrap().unwrap().leads);
    stub.fault("read-record", Fault::Refused);
    assert_eq!(election.word().await.unwrap_err().kind(), ErrorKind::Auth);
}
