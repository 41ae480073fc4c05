//! The keeper of a session: it writes while the session is idle, and removes what has ended.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Env as _, Error, Instant, SystemEnv};
use zookeeper_client::Stat;

use super::{
    requests::Write,
    runtime::runtime,
    session::{Ending, Session},
};
use crate::{keys::layout::parent, tunables::TOUCH_PAUSE};

/// Starts the keeper. It ends with the session.
pub(super) fn start(session: &Arc<Session>) -> Result<(), Error> {
    runtime()?.spawn(run(Arc::downgrade(session)));
    Ok(())
}

async fn run(session: Weak<Session>) {
    let mut pause = Duration::ZERO;
    loop {
        let Some((at, earlier)) = session.upgrade().filter(|it| it.is_alive()).map(|it| {
            let now = SystemEnv.now();
            let due = it.due().max(now + pause);
            let first = it.ends.lock().values().map(|end| end.at).min();
            (first.map_or(due, |first| first.min(due)), Arc::clone(&it.earlier))
        }) else {
            return;
        };
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
pub(crate) async fn remove_ended(session: &Arc<Session>, now: Instant) {
    let ended: Vec<_> = {
        let mut ends = session.ends.lock();
        let ended = ends.iter_mut().filter(|(_, end)| end.at <= now).map(|(path, end)| {
            if matches!(end.what, Ending::Held | Ending::Other) {
                end.what = Ending::Unused;
            }
            (path.clone(), end.what)
        });
        ended.collect()
    };
    let removed =
        join_all(ended.iter().map(|(path, what)| remove(session, path, *what, now))).await;
    let mut ends = session.ends.lock();
    for ((path, _), removed) in ended.iter().zip(removed) {
        // It may have got a later end meanwhile.
        let Some(end) = ends.get_mut(path).filter(|end| end.at <= now) else { continue };
        match removed {
            Ok(()) => {
                ends.remove(path);
            }
            Err(error) => {
                tracing::trace!(target: "leasehold", %error, "an ended node is removed later");
                end.at = now + TOUCH_PAUSE;
            }
        }
    }
}

/// A node may have moved to another session of the same owner.
async fn remove(session: &Session, path: &str, what: Ending, now: Instant) -> Result<(), Error> {
    if what == Ending::Unnamed {
        return end_unnamed(session, path, now).await;
    }
    let is_ours = |stat: &Stat| match what {
        Ending::Kept(version) => stat.ephemeral_owner == 0 && stat.version == version,
        _ => stat.ephemeral_owner == session.id(),
    };
    let found = session.read_one(path).await?;
    if let Some((_, stat)) = found.filter(|(_, stat)| is_ours(stat)) {
        session.write(&[Write::Delete(path, Some(stat.version))]).await?;
    }
    Ok(())
}

/// Entries that were made for an attempt which did not learn their names. They end now, too.
async fn end_unnamed(session: &Session, stem: &str, now: Instant) -> Result<(), Error> {
    let directory = parent(stem);
    let children = session.children(directory).await?;
    let paths = children.iter().map(|child| format!("{directory}/{child}"));
    session.end_unnamed(stem, paths.filter(|path| path.starts_with(stem)), now);
    Ok(())
}
