//! A test of every backend with a server: a holder's write of the record that is held up on its
//! way, and arrives when another holds the lock.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, Grant, LockName, OwnerId, OwnerLabel, RecordWrite, Request,
    SystemEnv, WriteOutcome,
};
use servers::{Counters, Mode, Proxy};

const DAY: Duration = Duration::from_secs(86_400);
const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

async fn granted(store: &dyn Backend) -> Grant {
    let (name, label) = (LockName::new("late").unwrap(), OwnerLabel::new("test").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    let request = Request::new(name, owner, label, LEASE, SystemEnv.now());
    match store.try_acquire(&request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

fn write_of(value: &str) -> RecordWrite {
    RecordWrite::new(value, DAY).unwrap()
}

/// The proxy holds the write of a holder back while another client takes the lock and reads the
/// record. When the write arrives, it changes nothing. `behind` is a client of the store of
/// `direct`, through `proxy`, whose calls may take a minute.
pub async fn changes_nothing(direct: &dyn Backend, behind: Arc<dyn Backend>, proxy: &Proxy) {
    let stale = granted(&*behind).await;
    // By the same connection and statement as the write that follows.
    let first = behind.write_record(&stale, &write_of("first")).await.unwrap();
    assert_eq!(first, WriteOutcome::Written);
    proxy.set(Mode::Hold).await.unwrap();
    let (name, late) = (stale.name.clone(), write_of("late").with_number(2));
    let write = tokio::spawn(async move { behind.write_record(&stale, &late).await });
    let held = |now: &Counters| now.to_server.waiting > 0;
    proxy.until("the write to be held up", SOON, held).await.unwrap();
    direct.force_release(&name).await.unwrap();
    let next = granted(direct).await;
    // The next holder has read, and not written yet.
    let read = direct.read_record(&name).await.unwrap().record.expect("the first record");
    proxy.set(Mode::Pass).await.unwrap();
    assert_eq!(write.await.unwrap().unwrap(), WriteOutcome::NotHeld, "it came after a takeover");
    assert_eq!(direct.read_record(&name).await.unwrap().record, Some(read));
    let written = direct.write_record(&next, &write_of("next")).await.unwrap();
    assert_eq!(written, WriteOutcome::Written);
}
