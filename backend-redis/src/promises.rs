//! What is promised, by what the servers say of themselves.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use lock_core::{Error, Guarantees};

use crate::{
    guarantees,
    identity::Identity,
    link::{Link, check_memory_policy},
    routes::Routes,
    settings::Settings,
    store::Agreed,
    topology::Place,
};

/// Kept up to date by whoever has asked a server: with a new connection, and again and again behind it.
#[derive(Debug)]
pub(crate) struct Promises {
    settings: Settings,
    agreed: Mutex<Agreed>,
    /// What each server said of itself last.
    identities: Mutex<HashMap<Place, Arc<Identity>>>,
    promised: RwLock<Arc<Guarantees>>,
}

impl Promises {
    pub(crate) fn new(settings: &Settings) -> Self {
        let agreed = settings.first_agreed();
        Self {
            promised: RwLock::new(Arc::new(guarantees::of(agreed, settings, &[]))),
            settings: settings.clone(),
            agreed: Mutex::new(agreed),
            identities: Mutex::default(),
        }
    }

    pub(crate) fn agreed(&self) -> Agreed {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn agree(&self, agreed: Agreed) {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = agreed;
        let identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        self.promise(&identities);
    }

    /// A server has just said who it is, on a connection that is one of these.
    pub(crate) fn heard(&self, link: &Link, routes: &Routes) {
        // Another connection may have asked since.
        if link.is_dead() {
            return;
        }
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        let before = identities.len();
        // What was said by one that is used no more binds nobody.
        identities.retain(|place, _| *place == link.place || routes.may_use(place));
        let forgotten = identities.len() < before;
        let identity = link.known();
        let known = identities.insert(link.place.clone(), Arc::clone(&identity));
        if forgotten || known.is_none_or(|known| known != identity) {
            self.promise(&identities);
        }
    }

    fn promise(&self, identities: &HashMap<Place, Arc<Identity>>) {
        let known: Vec<&Identity> = identities.values().map(AsRef::as_ref).collect();
        let mut promised = guarantees::of(self.agreed(), &self.settings, &known);
        // Sentinels and nodes of a cluster name others, which may be elsewhere.
        promised.link = identities.keys().map(Place::link).fold(promised.link, Ord::min);
        let promised = Arc::new(promised);
        *self.promised.write().unwrap_or_else(PoisonError::into_inner) = promised;
    }

    /// Refuses new grants where a server would be refused by now: its policy may have been changed since.
    pub(crate) fn check_policy(&self) -> Result<(), Error> {
        check_memory_policy(self.evicting().as_deref(), &self.settings)
    }

    /// The `maxmemory-policy` of a server that may remove held locks.
    pub(crate) fn evicting(&self) -> Option<String> {
        let identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        identities.values().find_map(|identity| identity.evicting.clone())
    }
}
