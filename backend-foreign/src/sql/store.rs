//! A store: ShedLock's table, the companion table, and the settings.

use std::{sync::Arc, time::Duration};

use backend_sql::shared::{Described, Row, agree, micros};
use lock_core::{Error, ErrorKind, Guarantees, LockName, OwnerId, RwLock, check_record_version};
use tokio::sync::OnceCell;

use super::{
    guarantees,
    server::{NameState, Server, StoredSettings},
    statements::{Names, RECORD_VERSION, Statements},
};

/// Appended to the owner in `locked_by` during a minimum hold after the release. No owner id has
/// this form, so statements that compare the holder do not match.
const RELEASED: &str = " released";

/// The owner id that is shown for clients of ShedLock, which have none.
const FOREIGN: OwnerId = OwnerId::FOREIGN;

/// ShedLock's locks in one table.
#[derive(Debug)]
pub(super) struct ShedLock<S: Server> {
    pub(super) server: S,
    pub(super) described: Described,
    pub(super) names: Names,
    pub(super) sql: Statements<S::Statement>,
    pub(super) promised: RwLock<Arc<Guarantees>>,
    /// Set after the settings were checked: how many characters a name may have, if ShedLock's
    /// table has a limit.
    agreed: OnceCell<Option<usize>>,
}

impl<S: Server> ShedLock<S> {
    /// If the tables do not all exist yet, this only checks which exist.
    pub(super) async fn open(server: S, described: Described, table: &str) -> Result<Self, Error> {
        let names = Names::new(&described, table, S::QUOTE)?;
        let sql = server.statements(&names);
        let longest = described.longest_lease_of_new();
        let promised = guarantees::of(S::SHORTEST_LEASE, longest, None, described.connection);
        let promised = RwLock::new(Arc::new(promised));
        let this = Self { server, described, names, sql, promised, agreed: OnceCell::new() };
        this.update_guarantees(longest).await?;
        if this.server.existing_tables(&this.names).await? == [true; 3] {
            this.ready().await?;
        }
        Ok(this)
    }

    /// Updates the guarantees from the server's present settings.
    pub(super) async fn update_guarantees(&self, longest: Duration) -> Result<(), Error> {
        let problem = self.server.durability_problem(&self.sql.durability).await?;
        let promised =
            guarantees::of(S::SHORTEST_LEASE, longest, problem, self.described.connection);
        *self.promised.write() = Arc::new(promised);
        Ok(())
    }

    /// Checks the store's settings and columns once, and refuses what does not match.
    pub(super) async fn ready(&self) -> Result<&S, Error> {
        self.width().await?;
        Ok(&self.server)
    }

    async fn width(&self) -> Result<Option<usize>, Error> {
        let settle = || async {
            self.server.existing_tables(&self.names).await?;
            let stored = self.stored().await?;
            agree(self.described.longest_lease, stored.longest_lease)?;
            let width = columns::<S>(&self.server.pairs(&self.sql.columns).await?)?;
            self.update_guarantees(stored.longest_lease).await?;
            Ok(width)
        };
        self.agreed.get_or_try_init(settle).await.copied()
    }

    /// The settings as they are now.
    pub(super) async fn stored(&self) -> Result<StoredSettings, Error> {
        let gone = || Error::new(ErrorKind::Config, "the row of settings is gone");
        let stored = self.server.settings(&self.sql.settings).await?.ok_or_else(gone)?;
        check_record_version(&stored.version.to_string(), RECORD_VERSION)?;
        Ok(stored)
    }

    /// Refuses a name that is too long for ShedLock's table, or that the table would confuse with
    /// another name.
    pub(super) async fn check_name(&self, name: &LockName) -> Result<(), Error> {
        if S::PADS && name.as_str().ends_with(' ') {
            let message = "the name ends with a space, which ShedLock's table does not tell from the name without it; \
                           must end with another character";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let length = name.as_str().chars().count();
        match self.width().await? {
            Some(most) if length > most => Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "the name has {length} characters, and the column of ShedLock's table has room for {most}; \
                     must be at most {most}, or widen the column"
                ),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn longest_micros(&self, longest: Option<Duration>) -> i64 {
        micros(longest.unwrap_or_else(|| self.described.longest_lease_of_new()))
    }

    /// The identity of the store. Each table is a store of its own.
    pub(super) async fn identity(&self) -> Result<String, Error> {
        Ok(format!("shedlock:{}", self.stored().await?.identity))
    }
}

/// The row for the common flow. The companion row counts only while its owner holds the lock.
pub(super) fn row(state: &NameState) -> Result<Row, Error> {
    let NameState { name, locked_by, remaining, owner, label, token } = state;
    let token = token.unwrap_or(0);
    if remaining.is_zero() {
        return Row::read(name, None, None, token, 0, Duration::ZERO);
    }
    let (holder, kept) = match locked_by.strip_suffix(RELEASED) {
        Some(holder) => (holder, true),
        None => (&**locked_by, false),
    };
    if owner.as_deref() == Some(holder) {
        let mut row = Row::read(name, Some(holder), label.as_deref(), token, 0, *remaining)?;
        row.kept = kept;
        return Ok(row);
    }
    let plain: String = locked_by.chars().filter(|letter| !letter.is_control()).take(60).collect();
    let label = format!("a shedlock client: {plain}");
    Row::read(name, Some(&FOREIGN.to_string()), Some(&label), token, 0, *remaining)
}

/// The migration record for clients of ShedLock, the last of which was seen this long ago.
pub(super) fn record(store: &str, seen: Duration) -> Result<Option<Row>, Error> {
    let Some((name, label, left)) = crate::record::of_foreign_clients(store, "shedlock", seen)?
    else {
        return Ok(None);
    };
    let (owner, label) = (FOREIGN.to_string(), label.as_str());
    Row::read(name.as_str(), Some(&owner), Some(label), 0, 0, left).map(Some)
}

/// Refuses columns that cannot hold the values. Returns how many characters a name may have.
fn columns<S: Server>(found: &[(String, String)]) -> Result<Option<usize>, Error> {
    let of = |wanted: &str| {
        let kind = found.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        kind.map(|(_, kind)| kind.as_str()).ok_or_else(|| {
            refuse(format!("ShedLock's table has no column {wanted}; it must have name, lock_until, locked_at and locked_by"))
        })
    };
    for time in ["lock_until", "locked_at"] {
        let kind = of(time)?;
        if !S::TIMES.contains(&kind) {
            let allowed = S::TIMES.join(" or ");
            return Err(refuse(format!(
                "the column {time} of ShedLock's table is a {kind}; it must be a {allowed}"
            )));
        }
    }
    let holder = width(of("locked_by")?);
    let needed = FOREIGN.to_string().len() + RELEASED.len();
    if holder.is_some_and(|width| width < needed) {
        let message = format!(
            "the column locked_by of ShedLock's table must have room for {needed} characters"
        );
        return Err(refuse(message));
    }
    Ok(width(of("name")?))
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// The number in a type such as `varchar(64)`.
fn width(kind: &str) -> Option<usize> {
    kind.split_once('(')?.1.split(')').next()?.parse().ok()
}
