//! The names of records: which of its two stores a process uses.

use std::collections::BTreeMap;

use lock_core::{Backend, Env, Error, ErrorKind, Holder, Listing, LockName};

use crate::phase::Phase;

/// What the names of records begin with. Such a lock says nothing but that its holder is alive. The words behind it are
/// those of version 1; another version begins with another word, and is refused.
const RECORD: &str = "leasehold migration ";

/// Which of its two stores a process uses, by the digests of their identities: not by their roles,
/// which a fleet that goes back exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// One of them.
    Only(u64),
    /// Both, the smaller digest first.
    Both([u64; 2]),
}

impl Use {
    pub(crate) fn of(phase: Phase, stores: &[u64; 2]) -> Self {
        match phase {
            Phase::Old => Self::Only(stores[0]),
            Phase::Both => Self::Both([stores[0].min(stores[1]), stores[0].max(stores[1])]),
            Phase::New => Self::Only(stores[1]),
        }
    }

    fn stores(&self) -> &[u64] {
        match self {
            Self::Only(store) => std::slice::from_ref(store),
            Self::Both(stores) => stores,
        }
    }

    /// Whether the two may be active at once: they have a store in common.
    pub(crate) fn is_neighbour(self, other: Self) -> bool {
        self.stores().iter().any(|store| other.stores().contains(store))
    }

    /// The phase in a migration between these stores; `None` where a third is used.
    pub(crate) fn phase(self, stores: &[u64; 2]) -> Option<Phase> {
        let phases = [Phase::Old, Phase::Both, Phase::New];
        phases.into_iter().find(|phase| Self::of(*phase, stores) == self)
    }

    /// A name for the record of a process. The number makes it unique.
    pub(crate) fn record(self, env: &dyn Env) -> Result<LockName, Error> {
        let number = env.random();
        LockName::new(match self {
            Self::Only(store) => format!("{RECORD}only {store:016x} {number:032x}"),
            Self::Both([one, two]) => format!("{RECORD}both {one:016x} {two:016x} {number:032x}"),
        })
    }

    pub(crate) fn read(name: &LockName) -> Option<Self> {
        let words: Vec<_> = name.as_str().strip_prefix(RECORD)?.split(' ').collect();
        let (number, uses) = words.split_last()?;
        let store = |word: &str| u64::from_str_radix(word, 16).ok();
        let uses = match *uses {
            ["only", one] => Self::Only(store(one)?),
            ["both", one, two] => Self::Both([store(one)?, store(two)?]),
            _ => return None,
        };
        (number.len() == 32).then_some(uses)
    }
}

/// Whether a name is that of a record.
pub(crate) fn is_record(name: &LockName) -> bool {
    Use::read(name).is_some()
}

/// FNV-1a: a short form of an identity, the same in every process and version. backend-foreign makes the name of a record
/// for clients of other libraries (`record_of_theirs`), by the same rule.
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

/// Whether it was that: the errors of the stores name the stores.
pub(crate) fn is_unknown(error: &Error) -> bool {
    error.kind() == ErrorKind::Config && error.backend() == Some("migration")
}

/// The records in one or the other store, each once.
pub(crate) async fn records(
    stores: [&dyn Backend; 2],
) -> Result<BTreeMap<LockName, (Use, Holder)>, Error> {
    let mut found: BTreeMap<LockName, (Use, Holder)> = BTreeMap::new();
    for store in stores {
        let (mut listing, mut goes_on) = (Listing::new(), true);
        while goes_on {
            let page = store.list(listing.cursor()).await?;
            goes_on = listing.goes_on(&page)?;
            for lock in page.locks {
                let Some(holder) = lock.holder else { continue };
                let Some(uses) = Use::read(&lock.name) else {
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
    fn a_record_reads_back_from_its_name_and_no_other_name_is_one() {
        for uses in [Use::Both([1, u64::MAX]), Use::Only(0), Use::Only(u64::MAX)] {
            assert_eq!(Use::read(&uses.record(&SystemEnv).unwrap()), Some(uses));
        }
        for name in
            ["job", "leasehold migration", "leasehold migration both", "leasehold migration x y"]
        {
            assert!(!is_record(&LockName::new(name).unwrap()), "{name}");
        }
    }

    #[test]
    fn only_the_two_ends_are_no_neighbours() {
        let stores = [1, 2];
        let phases = [Phase::Old, Phase::Both, Phase::New];
        for (at, one) in phases.into_iter().enumerate() {
            assert_eq!(Use::of(one, &stores).phase(&stores), Some(one));
            for (other, two) in phases.into_iter().enumerate() {
                let [left, right] = [one, two].map(|phase| Use::of(phase, &stores));
                assert_eq!(left.is_neighbour(right), at.abs_diff(other) < 2, "{one} {two}");
            }
        }
        // The same store under the other role is the same use.
        assert!(Use::of(Phase::Old, &[1, 2]).is_neighbour(Use::of(Phase::New, &[2, 1])));
        assert_eq!(Use::of(Phase::Both, &[1, 2]), Use::of(Phase::Both, &[2, 1]));
    }

    #[test]
    fn migrations_with_another_store_are_neighbours_only_where_they_share_one() {
        let (here, there) = ([1, 2], [1, 3]);
        let [both, new] = [Phase::Both, Phase::New].map(|phase| Use::of(phase, &there));
        assert_eq!((both.phase(&here), new.phase(&here)), (None, None));
        assert!(both.is_neighbour(Use::of(Phase::Old, &here)));
        assert!(both.is_neighbour(Use::of(Phase::Both, &here)));
        assert!(!both.is_neighbour(Use::of(Phase::New, &here)));
        assert!(!new.is_neighbour(Use::of(Phase::Both, &here)));
    }
}
