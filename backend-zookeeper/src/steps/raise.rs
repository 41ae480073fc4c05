//! Raises the token of a held lock.

use lock_core::{Error, ErrorKind, FencingToken, Grant};

use super::grant::{PutOutcome, put};
use crate::{
    keys::data::{Note, to_bytes},
    session::Write,
    store::{OwnEntry, Store},
    tunables::TRIES,
};

/// Raises the stored token of a held grant. `false` if the lock is no longer held.
pub(crate) async fn raise(
    store: &Store,
    grant: &Grant,
    own: &OwnEntry,
    token: FencingToken,
) -> Result<bool, Error> {
    let path = store.layout.note(&grant.name);
    let own = &OwnEntry { session: store.session_of(own).await?, ..own.clone() };
    for _ in 0..TRIES {
        let view = store.view(&own.session, &grant.name, grant.owner).await?;
        let is_held = view.holders().iter().any(|entry| entry.node == own.node());
        let (Some((note, stat)), Some(directory), true) = (view.note, view.directory, is_held)
        else {
            return Ok(false);
        };
        let known = note.token_of(own.number, directory.czxid);
        let token = known.map_or(token, |known| known.max(token)).get();
        let (number, directory) = (own.number, directory.czxid);
        let raised = to_bytes(&Note { number, token, directory, ..note });
        match put(own, &[Write::Put(&path, &raised, stat.version)]).await? {
            PutOutcome::Done => return Ok(true),
            PutOutcome::Gone => return Ok(false),
            PutOutcome::Changed => {}
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the token again and again"))
}
