//! The operations for operators: inspect, list, force-release.

use std::sync::Arc;

use futures_util::future::try_join_all;
use lock_core::{
    Cursor, Error, ErrorKind, FencingToken, LockName, LockState, OwnerId, Page, ReleaseOutcome,
};

use super::view::{EntryNode, View};
use crate::{
    keys::{entry::Kind, layout::unescape},
    session::Session,
    store::Store,
    tunables::{PAGE, READ_AT_ONCE},
};

/// The entries that hold a lock, after those that have ended were removed.
async fn held_by(
    store: &Store,
    session: &Arc<Session>,
    name: &LockName,
) -> Result<(View, Vec<EntryNode>), Error> {
    let mut view = store.view(session, name, OwnerId::FOREIGN).await?;
    let mut entries = std::mem::take(&mut view.entries);
    store.first(session, name, &mut entries).await?;
    view.entries = entries;
    let seen = store.entries(session, name, view.holders()).await?;
    Ok((view, seen))
}

pub(crate) async fn inspect(store: &Store, name: &LockName) -> Result<Option<LockState>, Error> {
    let session = store.fresh_session().await?;
    let (view, seen) = held_by(store, &session, name).await?;
    if view.note.is_none() && view.entries.is_empty() {
        return Ok(None);
    }
    let waiting = view.entries.len().saturating_sub(seen.len()) as u64;
    Ok(Some(state(store, name, &view, &seen).with_waiting(waiting)))
}

fn state(store: &Store, name: &LockName, view: &View, seen: &[EntryNode]) -> LockState {
    let Some(last) = seen.last() else {
        return LockState::new(name.clone(), None, view.last_token());
    };
    let token =
        seen.iter().map(|it| view.token_of(it.entry.number)).max().unwrap_or(FencingToken::ZERO);
    let readers = (last.entry.kind == Kind::Reader).then_some(seen.len() as u64);
    LockState::new(name.clone(), last.holder(store), token)
        .with_kept(last.is_kept())
        .with_readers(readers)
}

/// A page of names: those of some buckets.
pub(crate) async fn list(store: &Store, from: Option<Cursor>) -> Result<Page, Error> {
    let refuse = || Error::new(ErrorKind::InvalidInput, "this is no cursor of this store");
    let start = from.map_or(Ok(0), |from| from.parse::<u8>().map_err(|_| refuse()))?;
    let session = store.fresh_session().await?;
    let (mut locks, mut bucket) = (Vec::new(), start);
    loop {
        let children = session.children(&store.layout.bucket(bucket)).await?;
        let names: Vec<_> = children.iter().filter_map(|child| unescape(child)).collect();
        for some in names.chunks(READ_AT_ONCE) {
            let held = some.iter().map(|name| async {
                let (view, seen) = held_by(store, &session, name).await?;
                Ok::<_, Error>((!seen.is_empty()).then(|| state(store, name, &view, &seen)))
            });
            locks.extend(try_join_all(held).await?.into_iter().flatten());
        }
        match bucket.checked_add(1) {
            None => return Ok(Page::new(locks, None)),
            Some(next) if locks.len() >= PAGE => {
                return Ok(Page::new(locks, Some(next.to_string())));
            }
            Some(next) => bucket = next,
        }
    }
}

/// Removes the entries that hold the lock, also those of other libraries.
pub(crate) async fn force_release(store: &Store, name: &LockName) -> Result<ReleaseOutcome, Error> {
    release_holders(store, name, |_, _| true).await
}

/// Removes the entry with this token. No other entry has it.
pub(crate) async fn force_release_if(
    store: &Store,
    name: &LockName,
    token: FencingToken,
) -> Result<ReleaseOutcome, Error> {
    let has_token = |view: &View, seen: &EntryNode| {
        seen.data.is_some() && view.token_of(seen.entry.number) == token
    };
    release_holders(store, name, has_token).await
}

async fn release_holders(
    store: &Store,
    name: &LockName,
    is_meant: impl Fn(&View, &EntryNode) -> bool,
) -> Result<ReleaseOutcome, Error> {
    let session = store.fresh_session().await?;
    let (view, seen) = held_by(store, &session, name).await?;
    let mut outcome = ReleaseOutcome::NotHeld;
    for seen in seen.iter().filter(|seen| is_meant(&view, seen)) {
        if store.delete(&session, name, seen).await? {
            outcome = ReleaseOutcome::Released;
        }
    }
    Ok(outcome)
}
