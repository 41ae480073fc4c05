//! Forgets names that nobody has used for days, so that the store does not grow with every name.
//!
//! All nodes of a name are removed in one step, which raises the watermark of the bucket to the
//! last token. Later tokens are above the watermark. The step fails if the directory has an entry,
//! or if the data of the name have changed. A grant of a name that was unused for so long changes
//! them, since its token must follow the clock.

use std::sync::Arc;

use lock_core::{Env as _, Error, LockName, SystemEnv};

use zookeeper_client::Stat;

use super::view::{first, read_note};
use crate::{
    error::Failure,
    keys::{
        data::{micros, read_watermark},
        entry::in_order,
        layout::{Layout, parent, unescape},
    },
    session::{Read, Session, Write, in_background},
    store::Store,
    tunables::{FORGOTTEN_AFTER, SWEEP_EVERY, SWEPT_AT_ONCE},
};

/// After some releases: sweeps a part of a bucket in the background.
pub(super) fn now_and_then(store: &Store, session: &Arc<Session>) {
    let random = SystemEnv.random();
    if !random.is_multiple_of(SWEEP_EVERY) {
        return;
    }
    let (session, layout) = (Arc::clone(session), store.layout.clone());
    let now = store.sessions.clock.earliest();
    in_background(async move {
        let bucket = (random >> 64) as u8;
        if let Err(error) = sweep(&session, &layout, bucket, now).await {
            tracing::trace!(target: "leasehold", %error, "old names were not forgotten");
        }
    });
}

async fn sweep(session: &Arc<Session>, layout: &Layout, bucket: u8, now: u64) -> Result<(), Error> {
    let bucket = layout.bucket(bucket);
    let names = session.children(&bucket).await?;
    let start = SystemEnv.random() as usize % names.len().max(1);
    let names = names.iter().cycle().skip(start).take(names.len().min(SWEPT_AT_ONCE));
    let paths: Vec<_> = names.map(|name| format!("{bucket}/{name}")).collect();
    let asked: Vec<_> = paths.iter().map(|path| Read::Data(path)).collect();
    for (path, found) in paths.iter().zip(session.read_all(&asked).await?) {
        let is_old = found.data().is_some_and(|(_, stat)| is_old(&stat, now));
        if let Some(name) = path.rsplit('/').next().and_then(unescape).filter(|_| is_old) {
            forget(session, layout, &name, now).await?;
        }
    }
    Ok(())
}

/// Whether a name has not been used for long, by the node of its token.
fn is_old(note: &Stat, now: u64) -> bool {
    micros(note.mtime).saturating_add(FORGOTTEN_AFTER.as_micros() as u64) <= now
}

/// Forgets a name that is old and free.
async fn forget(
    session: &Arc<Session>,
    layout: &Layout,
    name: &LockName,
    now: u64,
) -> Result<(), Error> {
    let (note, directory) = (layout.note(name), layout.directory(name));
    let bucket = parent(&note);
    let asked = [Read::Data(&note), Read::Data(&directory), Read::Data(bucket)];
    let [found, there, watermark] = session.read(asked).await?;
    let there = there.data();
    let (Some((data, stat)), Some((watermark, bucket_stat))) =
        (read_note(found)?, watermark.data())
    else {
        return Ok(());
    };
    let is_used =
        data.record.as_ref().is_some_and(|record| !record.is_over(now)) || !is_old(&stat, now);
    if is_used {
        return Ok(());
    }
    if there.as_ref().is_some_and(|(_, stat)| stat.num_children > 0) {
        // What was kept and has ended goes now. The name is forgotten by a later sweep.
        let mut entries = in_order(session.children(&directory).await?);
        first(session, layout, name, &mut entries, || now).await?;
        return Ok(());
    }
    // No entry so far has a higher number.
    let known = there.as_ref().and_then(|(_, directory)| data.last(directory));
    let last = known.unwrap_or_else(|| data.highest(&stat, now));
    let watermark = read_watermark(&watermark).max(last).get().to_string();
    let mut steps = vec![
        Write::Put(bucket, watermark.as_bytes(), bucket_stat.version),
        Write::Delete(&note, Some(stat.version)),
    ];
    // One with data is somebody's, who uses the same path.
    let there = there.filter(|(data, _)| data.is_empty());
    steps.extend(there.map(|_| Write::Delete(&directory, None)));
    match session.write(&steps).await {
        // Somebody uses the name.
        Ok(_) | Err(Failure::Refused(..)) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::time::Duration;

    use lock_core::{Attempt, Backend as _, RecordWrite, ReleaseOptions};

    use super::*;
    use crate::steps::tests::{connect, granted, request, start};

    /// Tries to forget a name, `later` from now. Returns whether it did.
    async fn forgotten(store: &Store, name: &str, later: Duration) -> bool {
        let (session, name) = (store.session().await.unwrap(), LockName::new(name).unwrap());
        let now = store.sessions.clock.latest() + later.as_micros() as u64;
        forget(&session, &store.layout, &name, now).await.unwrap();
        let (note, directory) = (store.layout.note(&name), store.layout.directory(&name));
        let found = session.read([Read::Data(&note), Read::Data(&directory)]).await.unwrap();
        let [note, directory] = found.map(|found| found.data().is_some());
        assert_eq!(note, directory, "a part of the name is left");
        !note
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn old_names_are_forgotten_and_their_tokens_are_not() {
        let (_zookeeper, store) = start().await;
        let later = FORGOTTEN_AFTER + Duration::from_secs(60);
        let mut floored = request("job");
        floored.floor = granted(&store, &request("other")).await.token;
        floored.floor = lock_core::FencingToken::new(floored.floor.get() + 10_000_000).unwrap();
        let Attempt::Granted(grant) = store.try_acquire(&floored).await.unwrap() else {
            panic!("not granted")
        };
        assert!(!forgotten(&store, "job", later).await, "a held lock");
        let write = RecordWrite::new("value", later * 2).unwrap();
        store.write_record(&grant, &write).await.unwrap();
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        let last = store.inspect(&grant.name).await.unwrap().map(|state| state.token);
        assert_eq!(last, Some(grant.token));
        assert!(!forgotten(&store, "job", later).await, "a record");
        assert!(!forgotten(&store, "job", Duration::from_secs(60)).await, "used lately");
        assert!(forgotten(&store, "job", later * 3).await);
        let next = granted(&store, &request("job")).await;
        assert!(next.token > grant.token, "{} after {}", next.token, grant.token);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sweep_forgets_all_that_is_old() {
        let (_zookeeper, store) = start().await;
        let session = store.session().await.unwrap();
        let mut notes = Vec::new();
        for name in ["one", "two", "three"] {
            let grant = granted(&store, &request(name)).await;
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
            notes.push(store.layout.note(&grant.name));
        }
        let later = store.sessions.clock.latest() + 2 * FORGOTTEN_AFTER.as_micros() as u64;
        for bucket in 0..=u8::MAX {
            sweep(&session, &store.layout, bucket, later).await.unwrap();
        }
        for note in notes {
            assert!(session.read_one(&note).await.unwrap().is_none(), "{note} is there");
        }
    }

    /// The client that has kept it is gone, and nobody asks for the name.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_kept_and_has_ended_is_swept() {
        let (zookeeper, one) = start().await;
        let store = connect(&zookeeper).await;
        let grant = granted(&one, &request("job")).await;
        let keep = ReleaseOptions::new().with_keep(Duration::from_secs(20));
        one.release(&grant, keep).await.unwrap();
        one.close().await;
        let later = FORGOTTEN_AFTER + Duration::from_secs(60);
        assert!(!forgotten(&store, "job", later).await, "it was kept");
        assert!(forgotten(&store, "job", later).await);
    }

    /// Somebody uses the same path for something else.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_directory_with_data_stays() {
        let (_zookeeper, store) = start().await;
        let grant = granted(&store, &request("job")).await;
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        let session = store.session().await.unwrap();
        let (directory, note) =
            (store.layout.directory(&grant.name), store.layout.note(&grant.name));
        session.write(&[Write::Put(&directory, b"theirs", 0)]).await.unwrap();
        let later = store.sessions.clock.latest() + 2 * FORGOTTEN_AFTER.as_micros() as u64;
        forget(&session, &store.layout, &grant.name, later).await.unwrap();
        let (data, _) = session.read_one(&directory).await.unwrap().expect("it stays");
        assert_eq!(data, b"theirs");
        assert!(session.read_one(&note).await.unwrap().is_none());
        assert!(granted(&store, &request("job")).await.token > grant.token);
    }
}
