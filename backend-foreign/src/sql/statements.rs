//! The statements: the SQL files with the names of the tables inserted.

use backend_sql::shared::Described;
use lock_core::Error;

/// The version of the companion table, the settings and the statements.
pub(super) const RECORD_VERSION: u64 = 1;

/// The statements of each database. Each is in a file of the same name.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements<S> {
            $(pub(super) $name: S,)*
        }

        impl<S> Statements<S> {
            #[cfg(feature = "postgres")]
            pub(super) fn postgres(make: impl Fn(&str) -> S) -> Self {
                Self { $($name: make(include_str!(concat!("postgres/", stringify!($name), ".sql"))),)* }
            }

            #[cfg(feature = "mysql")]
            pub(super) fn mysql(make: impl Fn(&str) -> S) -> Self {
                Self { $($name: make(include_str!(concat!("mysql/", stringify!($name), ".sql"))),)* }
            }
        }
    };
}

statements! {
    create_row create_companion_row acquire read list last_foreign_holder renew renew_one release minimum_hold
    tombstone raise force_release repair_token settings set_longest_lease clock highest_token columns
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

    /// A text with these names and the longest lease of a new store inserted.
    pub(super) fn fill(&self, text: &str, longest_micros: i64) -> String {
        text.replace("{lock}", &self.lock)
            .replace("{companion}", &self.companion)
            .replace("{store}", &self.settings)
            .replace("{longest_lease}", &longest_micros.to_string())
    }
}
