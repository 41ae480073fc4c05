//! Raises the token of a held lock.

use lock_core::{Error, ErrorKind, FencingToken, Grant};

use super::grant::{Put, put};
use crate::{
    keys::data::{Note, to_bytes},
    session::Write,
    store::{Held, Store},
    tunables::TRIES,
};

/// Raises the stored token of a held grant. `false` if the lock is no longer held.
pub(crate) async fn raise(
    store: &Store,
    grant: &Grant,
    held: &Held,
    token: FencingToken,
) -> Result<bool, Error> {
    let path = store.layout.note(&grant.name);
    let held = &Held { session: store.session_of(held).await?, ..held.clone() };
    for _ in 0..TRIES {
        let view = store.view(&held.session, &grant.name, grant.owner).await?;
        let is_held = view.holders().iter().any(|entry| entry.node == held.node());
        let (Some((note, stat)), Some(directory), true) = (view.note, view.directory, is_held)
        else {
            return Ok(false);
        };
        let known = note.token_of(held.number, directory.czxid);
        let token = known.map_or(token, |known| known.max(token)).get();
        let (number, directory) = (held.number, directory.czxid);
        let raised = to_bytes(&Note { number, token, directory, ..note });
        match put(held, &[Write::Put(&path, &raised, stat.version)]).await? {
            Put::Done => return Ok(true),
            Put::Gone => return Ok(false),
            Put::Changed => {}
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the token again and again"))
}
