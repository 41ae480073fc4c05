//! The background tasks of a connection.

use std::sync::{Arc, Weak};

use lock_core::{Env as _, OncePer, SystemEnv};

use crate::{
    connection::{Connection, PushListener, pool::Pool},
    discovery::Discovery,
    guarantees::GuaranteeTracker,
    settings::Settings,
    tunables::CONFIRM_EVERY,
};

/// Starts the tasks that run until the connection ends or is unused.
pub(super) fn spawn_background_tasks(
    settings: &Settings,
    connection: &Arc<Connection>,
    pool: &Arc<Pool>,
    guarantees: &Arc<GuaranteeTracker>,
    listener: &Arc<dyn PushListener>,
    discovery: &Discovery,
) {
    if discovery.may_see_replacements() {
        // A separate task, so that a slow sentinel does not delay the handshakes.
        let (connection, listener) = (Arc::downgrade(connection), Arc::clone(listener));
        tokio::spawn(watch_for_replacement(connection, listener, discovery.clone()));
    }
    let refresher = HandshakeRefresher {
        connection: Arc::downgrade(connection),
        pool: Arc::downgrade(pool),
        settings: Box::new(settings.clone()),
        discovery: discovery.clone(),
        guarantees: Arc::clone(guarantees),
        listener: Arc::clone(listener),
    };
    tokio::spawn(refresher.run());
}

/// Holds nothing that would keep the connection or its store alive.
struct HandshakeRefresher {
    connection: Weak<Connection>,
    pool: Weak<Pool>,
    settings: Box<Settings>,
    discovery: Discovery,
    guarantees: Arc<GuaranteeTracker>,
    listener: Arc<dyn PushListener>,
}

impl HandshakeRefresher {
    /// Repeats the handshake, and updates the guarantees by it.
    async fn run(self) {
        let mut last = None;
        let failure_line = OncePer::minute();
        loop {
            tokio::time::sleep(CONFIRM_EVERY).await;
            let Some(connection) = alive(&self.connection) else { return };
            let confirmed = async {
                tokio::select! {
                    biased;
                    confirmed = connection.confirm() => Some(confirmed),
                    () = connection.silent(&self.settings, &self.listener) => None,
                }
            };
            let (confirmed, ()) = tokio::join!(confirmed, connection.listening.confirm());
            let Some(confirmed) = confirmed else {
                tracing::warn!(
                    target: "leasehold",
                    server = %connection.address,
                    "the connection is silent, and the server answers on a new one: it is given up"
                );
                connection.commands.give_up();
                self.discovery.distrust();
                self.listener.missed();
                return;
            };
            match confirmed {
                Ok(handshake) => {
                    failure_line.reset();
                    let Some(pool) = self.pool.upgrade() else { return };
                    self.guarantees.update(&connection, &pool);
                    let identity = handshake.identity;
                    if last.replace(Arc::clone(&identity)).is_some_and(|old| old != identity) {
                        self.listener.missed();
                    }
                }
                Err(error) if failure_line.is_due(SystemEnv.now()) => {
                    tracing::warn!(target: "leasehold", %error, "the server did not confirm its identity");
                }
                Err(_) => {}
            }
            connection.listening.unsubscribe_if_idle().await;
        }
    }
}

/// Drops the connection to a server that still takes itself for a master after another has replaced
/// it.
async fn watch_for_replacement(
    connection: Weak<Connection>,
    listener: Arc<dyn PushListener>,
    discovery: Discovery,
) {
    loop {
        tokio::time::sleep(CONFIRM_EVERY).await;
        let Some(address) = alive(&connection).map(|connection| connection.address.clone()) else {
            return;
        };
        if discovery.has_left(&address).await
            && let Some(connection) = alive(&connection)
        {
            // Waiters ask again, and so find the new master.
            connection.commands.retire();
            listener.missed();
        }
    }
}

fn alive(connection: &Weak<Connection>) -> Option<Arc<Connection>> {
    connection.upgrade().filter(|connection| !connection.commands.is_dead())
}
