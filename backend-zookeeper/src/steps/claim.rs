//! The attempt of a waiter: it has the lock when nothing that it waited for is left.

use lock_core::{Attempt, Busy, Error, ErrorKind, Request, check_lease};

use super::{
    grant::grant,
    view::{Seen, read_note, token_of},
};
use crate::{
    session::{Ask, Found},
    store::Store,
    tunables::{POLL, TRIES},
    waiting::Ahead,
};

/// The attempt of an owner whose entry this client made. It only reads, unless the token must
/// follow the clock.
pub(crate) async fn claim(store: &Store, request: &Request) -> Result<Attempt, Error> {
    let lost = || {
        let message = "the queue entry is gone: its session ended, or it was removed";
        Err(Error::new(ErrorKind::Unavailable, message))
    };
    // The longest lease may have been shortened while this entry waited.
    check_lease(request.lease, store.settings().longest_held())?;
    store.check_token(request.floor)?;
    for _ in 0..TRIES {
        let Some(waiting) = store.waiters.get(request.owner) else { return lost() };
        let (held, session) = (&waiting.held, &waiting.held.session);
        let directory = store.layout.directory(&request.name);
        let (note, settings) = (store.layout.note(&request.name), store.layout.settings());
        let tombstone = store.layout.tombstone(request.owner);
        let ahead = waiting.ahead();
        let path = |entry: &crate::keys::entry::Entry| format!("{directory}/{}", entry.node);
        let paths = ahead.as_ref().map(|it| [path(&it.first), path(&it.last)]);
        let mut asked = vec![
            Ask::Data(&held.path),
            Ask::Data(&directory),
            Ask::Data(&note),
            Ask::Data(&settings),
            Ask::Data(&tombstone),
        ];
        asked.extend(paths.iter().flatten().map(|path| Ask::Data(path)));
        let mut found = session.read(&asked).await?.into_iter();
        let mut next = || found.next().unwrap_or(Found::Missing);
        let own = next().data();
        let directory = next().data().map(|(_, stat)| stat);
        let note = read_note(next())?;
        store.check_settings(session, next()).await?;
        store.meet_queue(session, directory.as_ref()).await?;
        let is_abandoned = next().data().is_some();
        let (Some(_), Some(directory)) = (own, directory) else {
            waiting.lose();
            return lost();
        };
        if is_abandoned {
            waiting.lose();
            store.remove(held).await;
            return Ok(Attempt::Busy(Busy::new(None, token_of(note.as_ref(), None, None), POLL)));
        }
        if let Some(Ahead { first, last, holder, count }) = ahead {
            let token = token_of(note.as_ref(), Some(&directory), holder);
            let (seen, is_last_gone) = (Seen::new(first.clone(), next()), next().data().is_none());
            let is_ended = match &seen {
                Some(seen) => store.remove_ended(session, &request.name, seen).await?,
                None => true,
            };
            if is_last_gone && last.node != first.node {
                waiting.pass(&last);
            }
            match seen {
                Some(seen) if !is_ended => {
                    return Ok(Attempt::Busy(seen.busy(store, token, count)));
                }
                _ => waiting.pass(&first),
            }
            // What was read is enough only if nothing else was before it.
            if waiting.ahead().is_some() {
                waiting.pass_gone(&store.layout).await?;
                continue;
            }
        }
        if let Some(quarantined) = store.quarantined() {
            return Ok(Attempt::Quarantined(quarantined));
        }
        let granted = grant(store, request, held.clone(), note, directory).await;
        return match granted {
            Ok(Some(grant)) => Ok(Attempt::Granted(grant)),
            Ok(None) => {
                waiting.lose();
                lost()
            }
            Err(error) => Err(error),
        };
    }
    Err(Error::new(ErrorKind::Unavailable, "the queue changes again and again"))
}
