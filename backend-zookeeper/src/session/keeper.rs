//! The keeper of a session: it writes while the session is idle, and removes what has ended.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Env as _, Error, Instant, SystemEnv};

use zookeeper_client::Stat;

use super::{requests::Write, runtime::runtime, session::Session};
use crate::tunables::TOUCH_PAUSE;

/// Starts the keeper. It ends with the session.
pub(super) fn start(session: &Arc<Session>) -> Result<(), Error> {
    runtime()?.spawn(run(Arc::downgrade(session)));
    Ok(())
}

async fn run(session: Weak<Session>) {
    let mut pause = Duration::ZERO;
    loop {
        let Some(next) = session.upgrade().filter(|it| it.is_alive()).map(|it| {
            let now = SystemEnv.now();
            let due = it.due().max(now + pause);
            let first = it.ends.lock().values().map(|end| end.at).min();
            (first.map_or(due, |first| first.min(due)), Arc::clone(&it.earlier))
        }) else {
            return;
        };
        let (at, earlier) = next;
        tokio::select! {
            () = SystemEnv.sleep_until(at) => {}
            () = earlier.notified() => continue,
        }
        let Some(session) = session.upgrade() else { return };
        let now = SystemEnv.now();
        remove_ended(&session, now).await;
        pause = Duration::ZERO;
        if session.due() <= now && session.touch().await.is_err() {
            pause = TOUCH_PAUSE;
        }
    }
}

/// The lease of an entry ends when its holder has not renewed it, also if the client lives.
async fn remove_ended(session: &Arc<Session>, now: Instant) {
    let ended: Vec<_> = {
        let mut ends = session.ends.lock();
        ends.extract_if(|_, end| end.at <= now).map(|(path, _)| path).collect()
    };
    let removed = join_all(ended.iter().map(|ended| remove(session, ended))).await;
    for (ended, removed) in ended.iter().zip(removed) {
        if let Err(error) = removed {
            tracing::trace!(target: "leasehold", %error, "an ended node is removed later");
            session.end_at(ended, now + TOUCH_PAUSE, false);
        }
    }
}

/// It may have moved to another session of the same owner. What is kept without a session has a
/// version.
async fn remove(session: &Session, ended: &str) -> Result<(), Error> {
    let (path, version) = match ended.split_once('#') {
        Some((path, version)) => (path, version.parse::<i32>().ok()),
        None => (ended, None),
    };
    let found = session.read_one(path).await?;
    let is_ours = |stat: &Stat| match version {
        Some(version) => stat.ephemeral_owner == 0 && stat.version == version,
        None => stat.ephemeral_owner == session.id(),
    };
    if let Some((_, stat)) = found.filter(|(_, stat)| is_ours(stat)) {
        session.write(&[Write::Delete(path, Some(stat.version))]).await?;
    }
    Ok(())
}
