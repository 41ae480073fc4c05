//! An attempt whose first try arrives long after the store's own repeat was answered.

use std::{net::SocketAddr, sync::Arc};

use conformance_tests::kit::{Mode, Proxy};
use futures_util::future::join;
use lock_core::{Backend, ErrorKind, LockClient, LockName, ReleaseOptions, TryAcquire};

use super::{LEASE, WAIT, granted, request_for};

/// `open` opens the store of `direct` at another address, with one connection that is already open. It has taken and released the
/// name `warm`.
pub(crate) async fn late_first_try(
    server: SocketAddr,
    direct: Arc<dyn Backend>,
    open: impl AsyncFn(SocketAddr) -> Arc<dyn Backend>,
) {
    for held in [false, true] {
        let mut tries = 0;
        while !try_late(server, &direct, &open, held).await {
            tries += 1;
            assert!(tries < 20, "the cut met every repeat, too");
        }
    }
}

/// Returns whether the repeat was answered: the cut may break its connection, too.
async fn try_late(
    server: SocketAddr,
    direct: &Arc<dyn Backend>,
    open: &impl AsyncFn(SocketAddr) -> Arc<dyn Backend>,
    held: bool,
) -> bool {
    // The far proxy holds the request back, and the near one breaks the connection.
    let far = Proxy::start(server).await.unwrap();
    let near = Proxy::start(far.address()).await.unwrap();
    let client = LockClient::new(open(near.address()).await);
    let theirs = match held {
        true => Some(granted(direct, &request_for("warm", LEASE)).await),
        false => None,
    };
    far.set(Mode::Hold).await.unwrap();
    near.redirect(server);
    let attempt = client.lock("warm").lease(LEASE).try_acquire();
    let fault = async {
        far.until("the first try", WAIT, |now| now.to_server.waiting > 0).await.unwrap();
        near.set(Mode::Cut).await.unwrap();
        near.set(Mode::Pass).await.unwrap();
    };
    let (answer, ()) = join(attempt, fault).await;
    let answered = match (answer, &theirs) {
        (Ok(TryAcquire::Acquired(guard)), None) => {
            guard.release().await.unwrap();
            true
        }
        (Ok(TryAcquire::Busy(busy)), Some(theirs)) => {
            assert_eq!(busy.token, theirs.token);
            true
        }
        (Err(error), _) if error.kind() == ErrorKind::OutcomeUnknown => false,
        (other, _) => panic!("held by another: {held}, and answered {other:?}"),
    };
    if let Some(theirs) = theirs {
        direct.release(&theirs, ReleaseOptions::default()).await.unwrap();
    }
    // Now only the request in the proxy is still under way.
    client.close().await;
    let before = far.counters().to_server.passed;
    far.set(Mode::Pass).await.unwrap();
    let done = far.until("its end", WAIT, |now| now.open == 0).await.unwrap();
    assert!(done.to_server.passed > before, "the fault did not happen");
    let name = LockName::new("warm").unwrap();
    let state = direct.inspect(&name).await.unwrap().unwrap();
    assert!(state.holder.is_none(), "held by another: {held}; {state:?}");
    answered
}
