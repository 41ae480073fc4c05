//! Keeps the guarantees up to date with the servers.

use std::{collections::HashMap, sync::Arc};

use lock_core::{Error, Guarantees, Mutex, RwLock};

use crate::{
    connection::{Connection, identity::Identity, pool::Pool},
    guarantees::promises,
    settings::{Address, AgreedSettings, Settings, check_memory_policy},
};

/// Each handshake updates the guarantees: that of a new connection, and those in the background.
#[derive(Debug)]
pub(crate) struct GuaranteeTracker {
    settings: Settings,
    agreed: Mutex<AgreedSettings>,
    /// The last description of each server.
    identities: Mutex<HashMap<Address, Arc<Identity>>>,
    promised: RwLock<Arc<Guarantees>>,
}

impl GuaranteeTracker {
    pub(crate) fn new(settings: &Settings) -> Self {
        let agreed = settings.first_agreed();
        Self {
            promised: RwLock::new(Arc::new(promises::of(agreed, settings, &[]))),
            settings: settings.clone(),
            agreed: Mutex::new(agreed),
            identities: Mutex::default(),
        }
    }

    pub(crate) fn agreed(&self) -> AgreedSettings {
        *self.agreed.lock()
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read())
    }

    pub(crate) fn agree(&self, agreed: AgreedSettings) {
        *self.agreed.lock() = agreed;
        let identities = self.identities.lock();
        self.promise(&identities);
    }

    /// A server has just confirmed its identity, on a connection of this pool.
    pub(crate) fn update(&self, connection: &Connection, pool: &Pool) {
        // Another connection may have replaced this one meanwhile.
        if connection.is_dead() {
            return;
        }
        let mut identities = self.identities.lock();
        let before = identities.len();
        // A server that is no longer used no longer counts.
        identities.retain(|address, _| *address == connection.address || pool.may_use(address));
        let forgotten = identities.len() < before;
        let identity = connection.known();
        let known = identities.insert(connection.address.clone(), Arc::clone(&identity));
        if forgotten || known.is_none_or(|known| known != identity) {
            self.promise(&identities);
        }
    }

    fn promise(&self, identities: &HashMap<Address, Arc<Identity>>) {
        let known: Vec<&Identity> = identities.values().map(AsRef::as_ref).collect();
        let mut promised = promises::of(self.agreed(), &self.settings, &known);
        // Sentinels and cluster nodes name other servers, which may be on other machines.
        promised.connection =
            identities.keys().map(Address::security).fold(promised.connection, Ord::min);
        let promised = Arc::new(promised);
        *self.promised.write() = promised;
    }

    /// Refuses new grants if a server would be refused now. Its policy may have changed after the
    /// connect.
    pub(crate) fn check_policy(&self) -> Result<(), Error> {
        check_memory_policy(self.evicting().as_deref(), &self.settings)
    }

    /// Why nothing is promised, if a server does not describe itself as a Redis does.
    pub(crate) fn doubt(&self) -> Option<String> {
        self.identities.lock().values().find_map(|identity| identity.doubt.clone())
    }

    /// Whether records may vanish without anybody noticing.
    pub(crate) fn may_lose_records_unnoticed(&self) -> bool {
        let identities = self.identities.lock();
        let known: Vec<&Identity> = identities.values().map(AsRef::as_ref).collect();
        promises::why_records_vanish(&known).is_some()
    }

    /// The `maxmemory-policy` of a server that may remove held locks.
    pub(crate) fn evicting(&self) -> Option<String> {
        let identities = self.identities.lock();
        identities.values().find_map(|identity| identity.evicting.clone())
    }
}
