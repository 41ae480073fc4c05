//! S7: latches and what a leader publishes, which are records.

use lock_core::{ErrorKind, Latch, LockClient, LockName};

use super::{cases, records};
use crate::setting::Setting;

cases! {
    "S7" a_latch_opens_when_each_part_is_counted_down records;
    "S7" a_count_without_an_answer_counts_once records;
    "S7" a_former_holder_counts_nothing records;
    "S7" a_store_that_does_not_answer_opens_no_latch records;
    "S7" a_former_leader_publishes_nothing records;
}

fn latch(setting: &Setting, client: &LockClient, name: &LockName) -> Latch {
    client.latch(name, ["a", "b"]).lease(setting.long_lease())
}

/// The latch of two clients with their own connections.
async fn two(setting: &Setting) -> [Latch; 2] {
    let name = setting.name("batch");
    let (one, other) = (setting.client().await, setting.client().await);
    [latch(setting, &one, &name), latch(setting, &other, &name)]
}

async fn a_latch_opens_when_each_part_is_counted_down(setting: &Setting) {
    let [one, other] = two(setting).await;
    let (waits, seen) = (setting.clone(), other.clone());
    let waiting = tokio::spawn(async move { waits.opened(seen).await });
    assert_eq!(other.open_parts().await.unwrap(), ["a", "b"]);
    for counter in [&one, &other] {
        counter.count_down("a").await.unwrap();
        assert_eq!(one.open_parts().await.unwrap(), ["b"], "each part counts once, and stays");
    }
    assert!(!waiting.is_finished(), "a latch with an open part was open");
    other.count_down("b").await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(one.open_parts().await.unwrap().is_empty());
}

async fn a_count_without_an_answer_counts_once(setting: &Setting) {
    let (client, faults) = setting.client_with_record_faults().await;
    let other = setting.client().await;
    let name = setting.name("batch");
    faults.lose_next_write(async {});
    latch(setting, &client, &name).count_down("a").await.expect("a repeat of the holder's write");
    let counted = other.read_record(&name).await.unwrap().record;
    assert_eq!(latch(setting, &other, &name).open_parts().await.unwrap(), ["b"]);
    latch(setting, &other, &name).count_down("a").await.unwrap();
    assert_eq!(other.read_record(&name).await.unwrap().record, counted, "it counted twice");
}

/// Between its read and its write another client holds the lock and counts.
async fn a_former_holder_counts_nothing(setting: &Setting) {
    let (client, faults) = setting.client_with_record_faults().await;
    let other = setting.client().await;
    let name = setting.name("batch");
    let (theirs, taken) = (latch(setting, &other, &name), name.clone());
    faults.before_next_write(async move {
        other.force_release(&taken).await.unwrap();
        theirs.count_down("b").await.unwrap();
    });
    let ours = latch(setting, &client, &name);
    let error = ours.count_down("a").await.expect_err("a former holder counted a part");
    assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost), "{error}");
    assert_eq!(ours.open_parts().await.unwrap(), ["a"]);
    ours.count_down("a").await.unwrap();
    assert!(ours.open_parts().await.unwrap().is_empty());
}

async fn a_store_that_does_not_answer_opens_no_latch(setting: &Setting) {
    let (client, faults) = setting.client_with_record_faults().await;
    let name = setting.name("batch");
    let counter = latch(setting, &setting.client().await, &name);
    counter.count_down("a").await.unwrap();
    faults.lose_reads(true);
    let (waits, seen) = (setting.clone(), latch(setting, &client, &name));
    let mut waiting = tokio::spawn(async move { waits.opened(seen).await });
    tokio::select! {
        opened = &mut waiting => panic!("a latch with an open part was open: {opened:?}"),
        () = faults.failed_reads(2) => {}
    }
    faults.lose_reads(false);
    counter.count_down("b").await.unwrap();
    waiting.await.unwrap().unwrap();
}

async fn a_former_leader_publishes_nothing(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("chief");
    let lease = setting.long_lease();
    let (ours, theirs) = (one.election(&name).lease(lease), other.election(&name).lease(lease));
    let first = ours.campaign().await.unwrap();
    assert_eq!(theirs.word().await.unwrap(), None, "the leader has published nothing");
    first.monitor().publish("10.0.0.1:80").await.unwrap();
    let word = theirs.word().await.unwrap().expect("the leader's word");
    assert_eq!((&*word.value, word.term, word.leads), (&b"10.0.0.1:80"[..], first.token(), true));
    other.force_release(&name).await.unwrap();
    let word = theirs.word().await.unwrap().expect("the word of the last leader");
    assert!(!word.leads, "nobody leads");
    let second = theirs.campaign().await.unwrap();
    let word = theirs.word().await.unwrap().expect("the word of the last leader");
    assert_eq!((word.term, word.leads), (first.token(), false), "the next one has said nothing");
    // The next leader has read, and not published yet.
    let error = first.monitor().publish("10.0.0.1:80").await.expect_err("a former leader");
    assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost), "{error}");
    assert_eq!(theirs.word().await.unwrap(), Some(word), "a former leader replaced the word");
    second.monitor().publish("10.0.0.2:80").await.unwrap();
    let word = ours.word().await.unwrap().expect("the next leader's word");
    assert_eq!((&*word.value, word.term, word.leads), (&b"10.0.0.2:80"[..], second.token(), true));
}
