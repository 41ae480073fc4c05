//! The statements, by name, and the names of the tables.

use backend_sql::shared::Described;
use lock_core::Error;

/// The version of the companion table, the settings and the statements.
pub(super) const RECORD_VERSION: u64 = 1;

/// The statements of each database: `postgres/*.sql`, `mysql/*.sql`.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements<S> {
            $(pub(super) $name: S,)*
        }

        impl<S> Statements<S> {
            pub(super) fn new(named: impl Fn(&str) -> S) -> Self {
                Self { $($name: named(stringify!($name)),)* }
            }
        }
    };
}

statements! {
    create_row create_companion_row acquire read list last_foreign_holder renew renew_one release minimum_hold
    tombstone raise force_release repair_token settings set_longest_lease clock highest_token columns
    durability
}

/// The names of the tables, quoted.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) lock: String,
    pub(super) companion: String,
    pub(super) settings: String,
}

impl Names {
    /// # Errors
    /// `InvalidInput` for a name of a table that is too long, or not of plain characters.
    pub(super) fn new(described: &Described, table: &str, quote: char) -> Result<Self, Error> {
        let name = |suffix| described.tables.other(table, suffix, quote);
        Ok(Self {
            lock: name("")?,
            companion: name("_leasehold")?,
            settings: name("_leasehold_store")?,
        })
    }

    /// What stands for `{lock}` and so on in the files.
    pub(super) fn values(&self) -> [(&'static str, &str); 3] {
        [("lock", &self.lock), ("companion", &self.companion), ("store", &self.settings)]
    }
}
