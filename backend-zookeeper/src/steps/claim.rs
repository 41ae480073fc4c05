//! The attempt of a waiter: it has the lock when nothing that it waited for is left.

use lock_core::{Attempt, Error, ErrorKind, Request};

use super::acquire::{Placement, decide};
use crate::{store::Store, waiting::WaiterEntry};

/// The attempt of an owner whose entry this client made.
pub(crate) async fn claim(
    store: &Store,
    request: &Request,
    waiting: &WaiterEntry,
) -> Result<Attempt, Error> {
    store.check_token(request.floor)?;
    let own = &waiting.own;
    let view = store.view(&own.session, &request.name, request.owner).await?;
    let placed = match waiting.is_lost() {
        false => decide(store, request, own.clone(), view).await?,
        true => None,
    };
    match placed {
        Some(Placement::Granted(grant)) => Ok(Attempt::Granted(grant)),
        Some(Placement::Waiting { predecessor, busy, .. }) => {
            waiting.set_predecessor(Some(predecessor));
            Ok(Attempt::Busy(busy))
        }
        Some(Placement::Quarantined(quarantined)) => Ok(Attempt::Quarantined(quarantined)),
        Some(Placement::Refused(busy)) => {
            waiting.lose();
            Ok(Attempt::Busy(busy))
        }
        None => {
            waiting.lose();
            let message = "the queue entry is gone: its session ended, or it was removed";
            Err(Error::new(ErrorKind::Unavailable, message))
        }
    }
}
