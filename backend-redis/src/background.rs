//! What goes on behind a connection while it lasts.

use std::sync::{Arc, Weak};

use crate::{
    link::{CONFIRM_EVERY, Link},
    promises::Promises,
    pushes::Pushes,
    routes::Routes,
    store::Store,
    topology::Finder,
};

/// Looks after a connection until it has ended or nobody uses it.
pub(crate) fn look_after(link: &Arc<Link>, store: &Store) {
    let behind = Behind {
        link: Arc::downgrade(link),
        routes: Arc::downgrade(&store.routes),
        promises: Arc::clone(&store.promises),
        pushes: Arc::clone(&store.pushes),
    };
    if store.finder.may_tell_of_another() {
        // By itself: who is slow to tell is not to hold up the handshakes.
        let (link, pushes) = (Weak::clone(&behind.link), Arc::clone(&store.pushes));
        tokio::spawn(keep_looking(link, pushes, store.finder.clone()));
    }
    tokio::spawn(behind.keep_confirming());
}

/// Holds nothing that would keep the connection or its store alive.
struct Behind {
    link: Weak<Link>,
    routes: Weak<Routes>,
    promises: Arc<Promises>,
    pushes: Arc<Pushes>,
}

impl Behind {
    /// Confirms the handshake, and promises what holds by it.
    async fn keep_confirming(self) {
        let mut last = None;
        loop {
            tokio::time::sleep(CONFIRM_EVERY).await;
            let Some(link) = alive(&self.link) else { return };
            match link.confirm().await {
                Ok(told) => {
                    let Some(routes) = self.routes.upgrade() else { return };
                    self.promises.heard(&link, &routes);
                    let identity = told.identity;
                    if last.replace(Arc::clone(&identity)).is_some_and(|old| old != identity) {
                        self.pushes.recheck_all();
                    }
                }
                Err(error) => tracing::warn!(%error, "the server did not confirm who it is"),
            }
            link.listening.unsubscribe_if_idle().await;
        }
    }
}

/// Leaves a server that still calls itself a master and was replaced by another.
async fn keep_looking(link: Weak<Link>, pushes: Arc<Pushes>, finder: Finder) {
    loop {
        tokio::time::sleep(CONFIRM_EVERY).await;
        let Some(place) = alive(&link).map(|link| link.place.clone()) else { return };
        if finder.has_left(&place).await
            && let Some(link) = alive(&link)
        {
            // Whoever waits asks again, and so finds the new one.
            link.retire();
            pushes.recheck_all();
        }
    }
}

fn alive(link: &Weak<Link>) -> Option<Arc<Link>> {
    link.upgrade().filter(|link| !link.is_dead())
}
