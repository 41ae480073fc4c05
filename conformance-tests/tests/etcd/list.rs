//! The guards of the backend of etcd that are left out, one at a time; read by `build.rs`, too.

#[path = "list/leases.rs"]
mod leases;
#[path = "list/places.rs"]
mod places;
#[path = "list/restores.rs"]
mod restores;
#[path = "list/stores.rs"]
mod stores;

use super::mutant::Mutant;

pub(crate) fn etcd() -> Vec<Mutant> {
    [places::GUARDS, restores::GUARDS, leases::GUARDS, stores::GUARDS].concat()
}
