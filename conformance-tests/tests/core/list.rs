//! The guards of the core that are left out, one at a time; read by `build.rs`, too.

#[path = "list/client.rs"]
mod client;
#[path = "list/migration.rs"]
mod migration;
#[path = "list/values.rs"]
mod values;

use super::mutant::Mutant;

pub(crate) fn core() -> Vec<Mutant> {
    [client::GUARDS, values::GUARDS, migration::GUARDS].concat()
}
