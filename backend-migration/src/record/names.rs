//! The names of records. A name says which of the two stores its process uses.

use std::collections::BTreeMap;

use lock_core::{Backend, Env, Error, ErrorKind, Holder, Listing, LockName};

use crate::phase::Phase;

/// The prefix of the names of records. A record is a lock that only says that its holder is alive.
/// The words after the prefix are those of version 1. Another version has another first word, and
/// is refused.
const RECORD: &str = "leasehold migration ";

/// Which stores a process uses, by the digests of their identities. Not by their roles, since
/// processes that move back exchange the roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedStores {
    /// One of the two.
    One(u64),
    /// Both, the smaller digest first.
    Both([u64; 2]),
}

impl UsedStores {
    pub(crate) fn of(phase: Phase, stores: &[u64; 2]) -> Self {
        match phase {
            Phase::Old => Self::One(stores[0]),
            Phase::Both => Self::Both([stores[0].min(stores[1]), stores[0].max(stores[1])]),
            Phase::New => Self::One(stores[1]),
        }
    }

    fn stores(&self) -> &[u64] {
        match self {
            Self::One(store) => std::slice::from_ref(store),
            Self::Both(stores) => stores,
        }
    }

    /// Whether two processes may be active at once: they share a store.
    pub(crate) fn is_neighbour(self, other: Self) -> bool {
        self.stores().iter().any(|store| other.stores().contains(store))
    }

    /// The phase in a migration between these stores; `None` if the process uses another store.
    pub(crate) fn phase(self, stores: &[u64; 2]) -> Option<Phase> {
        let phases = [Phase::Old, Phase::Both, Phase::New];
        phases.into_iter().find(|phase| Self::of(*phase, stores) == self)
    }

    /// A name for the record of a process. The random number makes it unique.
    pub(crate) fn record_name(self, env: &dyn Env) -> Result<LockName, Error> {
        let number = env.random();
        LockName::new(match self {
            Self::One(store) => format!("{RECORD}only {store:016x} {number:032x}"),
            Self::Both([one, two]) => format!("{RECORD}both {one:016x} {two:016x} {number:032x}"),
        })
    }

    pub(crate) fn parse(name: &LockName) -> Option<Self> {
        let words: Vec<_> = name.as_str().strip_prefix(RECORD)?.split(' ').collect();
        let (number, uses) = words.split_last()?;
        let store = |word: &str| u64::from_str_radix(word, 16).ok();
        let uses = match *uses {
            ["only", one] => Self::One(store(one)?),
            ["both", one, two] => Self::Both([store(one)?, store(two)?]),
            _ => return None,
        };
        (number.len() == 32).then_some(uses)
    }
}

/// Whether this is the name of a record.
pub(crate) fn is_record(name: &LockName) -> bool {
    UsedStores::parse(name).is_some()
}

/// FNV-1a: a short form of an identity, the same in every process and version. backend-foreign uses
/// the same rule for the names of the records that it shows for clients of other libraries.
pub(crate) fn digest(identity: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    identity.bytes().fold(start, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The digests of both stores.
pub(crate) async fn digests(stores: [&dyn Backend; 2]) -> Result<[u64; 2], Error> {
    Ok([digest(&stores[0].identity().await?), digest(&stores[1].identity().await?)])
}

/// Refuses a record of another version: nobody knows which stores its process uses.
fn refuse_unknown(name: &LockName) -> Result<(), Error> {
    if !name.as_str().starts_with(RECORD) {
        return Ok(());
    }
    let message = format!(
        "a process keeps the record {:?} of a migration, whose version this leasehold does not know; upgrade \
         leasehold",
        name.as_str()
    );
    Err(Error::new(ErrorKind::Config, message).at("migration", "records"))
}

/// Whether an error is this refusal. Errors of the stores name another backend.
pub(crate) fn is_unknown_version(error: &Error) -> bool {
    error.kind() == ErrorKind::Config && error.backend() == Some("migration")
}

/// The records in either store, each once.
pub(crate) async fn read_records(
    stores: [&dyn Backend; 2],
) -> Result<BTreeMap<LockName, (UsedStores, Holder)>, Error> {
    let mut found: BTreeMap<LockName, (UsedStores, Holder)> = BTreeMap::new();
    for store in stores {
        let (mut listing, mut goes_on) = (Listing::new(), true);
        while goes_on {
            let page = store.list(listing.cursor()).await?;
            goes_on = listing.goes_on(&page)?;
            for lock in page.locks {
                let Some(holder) = lock.holder else { continue };
                let Some(uses) = UsedStores::parse(&lock.name) else {
                    refuse_unknown(&lock.name)?;
                    continue;
                };
                let known = found.entry(lock.name).or_insert_with(|| (uses, holder.clone()));
                known.1.remaining = known.1.remaining.max(holder.remaining);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use lock_core::SystemEnv;

    use super::*;

    #[test]
    fn record_names_are_parsed_and_other_names_are_not() {
        for uses in [UsedStores::Both([1, u64::MAX]), UsedStores::One(0), UsedStores::One(u64::MAX)]
        {
            assert_eq!(UsedStores::parse(&uses.record_name(&SystemEnv).unwrap()), Some(uses));
        }
        for name in
            ["job", "leasehold migration", "leasehold migration both", "leasehold migration x y"]
        {
            assert!(!is_record(&LockName::new(name).unwrap()), "{name}");
        }
    }

    #[test]
    fn only_the_two_end_phases_are_not_neighbours() {
        let stores = [1, 2];
        let phases = [Phase::Old, Phase::Both, Phase::New];
        for (at, one) in phases.into_iter().enumerate() {
            assert_eq!(UsedStores::of(one, &stores).phase(&stores), Some(one));
            for (other, two) in phases.into_iter().enumerate() {
                let [left, right] = [one, two].map(|phase| UsedStores::of(phase, &stores));
                assert_eq!(left.is_neighbour(right), at.abs_diff(other) < 2, "{one} {two}");
            }
        }
        // The same store in the other role is still the same store.
        assert!(
            UsedStores::of(Phase::Old, &[1, 2]).is_neighbour(UsedStores::of(Phase::New, &[2, 1]))
        );
        assert_eq!(UsedStores::of(Phase::Both, &[1, 2]), UsedStores::of(Phase::Both, &[2, 1]));
    }

    #[test]
    fn processes_of_two_migrations_are_neighbours_only_if_they_share_a_store() {
        let (here, there) = ([1, 2], [1, 3]);
        let [both, new] = [Phase::Both, Phase::New].map(|phase| UsedStores::of(phase, &there));
        assert_eq!((both.phase(&here), new.phase(&here)), (None, None));
        assert!(both.is_neighbour(UsedStores::of(Phase::Old, &here)));
        assert!(both.is_neighbour(UsedStores::of(Phase::Both, &here)));
        assert!(!both.is_neighbour(UsedStores::of(Phase::New, &here)));
        assert!(!new.is_neighbour(UsedStores::of(Phase::Both, &here)));
    }
}
