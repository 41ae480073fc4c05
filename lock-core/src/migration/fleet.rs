//! Who is in which phase: what the records of all processes tell.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::Phase;
use crate::{Backend, Env, Error, Holder, LockName, OwnerLabel};

/// What the names of records begin with. Such a lock says nothing but that its holder is alive.
const RECORD: &str = "leasehold migration ";

/// Which of its two stores a process uses, by the digests of their identities: not by their roles,
/// which a fleet that goes back exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// One of them.
    Only(u64),
    /// Both, the smaller digest first.
    Both([u64; 2]),
}

impl Use {
    pub(super) fn of(phase: Phase, stores: &[u64; 2]) -> Self {
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
    pub(super) fn is_neighbour(self, other: Self) -> bool {
        self.stores().iter().any(|store| other.stores().contains(store))
    }

    /// The phase in a migration between these stores; `None` where a third is used.
    pub(super) fn phase(self, stores: &[u64; 2]) -> Option<Phase> {
        let phases = [Phase::Old, Phase::Both, Phase::New];
        phases.into_iter().find(|phase| Self::of(*phase, stores) == self)
    }

    /// A name for the record of a process, which is told from others by its number.
    pub(super) fn record(self, env: &dyn Env) -> Result<LockName, Error> {
        let number = env.random();
        LockName::new(match self {
            Self::Only(store) => format!("{RECORD}only {store:016x} {number:032x}"),
            Self::Both([one, two]) => format!("{RECORD}both {one:016x} {two:016x} {number:032x}"),
        })
    }

    pub(super) fn read(name: &LockName) -> Option<Self> {
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
pub(super) fn is_record(name: &LockName) -> bool {
    Use::read(name).is_some()
}

/// FNV-1a: a short form of an identity, the same in every process and version.
pub(super) fn digest(identity: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    identity.bytes().fold(start, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The digests of both stores.
pub(super) async fn digests(stores: [&dyn Backend; 2]) -> Result<[u64; 2], Error> {
    Ok([digest(&stores[0].identity().await?), digest(&stores[1].identity().await?)])
}

/// The records in one or the other store, each once.
pub(super) async fn records(
    stores: [&dyn Backend; 2],
) -> Result<BTreeMap<LockName, (Use, Holder)>, Error> {
    let mut found: BTreeMap<LockName, (Use, Holder)> = BTreeMap::new();
    for store in stores {
        let mut from = None;
        loop {
            let page = store.list(from).await?;
            for lock in page.locks {
                let (Some(uses), Some(holder)) = (Use::read(&lock.name), lock.holder) else {
                    continue;
                };
                let known = found.entry(lock.name).or_insert_with(|| (uses, holder.clone()));
                known.1.remaining = known.1.remaining.max(holder.remaining);
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// A process that keeps a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Member {
    /// Its phase; `None` where it uses a store that is neither of the two, or was one of them before
    /// that lost its data.
    pub phase: Option<Phase>,
    /// Who it is.
    pub label: OwnerLabel,
    /// For how long its record lives on if it does not refresh it.
    pub remaining: Duration,
}

/// The processes of a migration, as their records show them.
///
/// A process that uses one of the stores by a URL of its own keeps no record and is not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Its processes, ordered by phase and label.
    pub members: Vec<Member>,
}

/// Which way a migration is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the old store to the new one.
    Forward,
    /// From the new store to the old one.
    Back,
}

/// What the operator may do next with all processes, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Restart each in this phase.
    Enter(Phase),
    /// Restart each with the URL of the only store that is still in use: of the new one, or going
    /// back of the old one.
    Leave,
}

/// Why the next step has to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {}", list(.who))]
pub struct Refusal {
    /// What is in the way.
    pub why: String,
    /// The processes that are.
    pub who: Vec<Member>,
}

fn list(members: &[Member]) -> String {
    let names: Vec<_> = members.iter().map(|member| format!("{:?}", member.label)).collect();
    names.join(", ")
}

impl Fleet {
    /// Reads the records of both stores. Its cost is that of listing all locks that are held.
    ///
    /// # Errors
    /// Those of either store: what cannot be read cannot be ruled out.
    pub async fn survey(old: &dyn Backend, new: &dyn Backend) -> Result<Self, Error> {
        let digests = digests([old, new]).await?;
        let member = |(uses, holder): (Use, Holder)| Member {
            phase: uses.phase(&digests),
            label: holder.label,
            remaining: holder.remaining,
        };
        let mut members: Vec<_> = records([old, new]).await?.into_values().map(member).collect();
        members.sort_by(|one, two| {
            let key = |member: &Member| (member.phase, member.label.to_string());
            key(one).cmp(&key(two))
        });
        Ok(Self { members })
    }

    fn of(&self, phase: Option<Phase>) -> Vec<Member> {
        self.members.iter().filter(|member| member.phase == phase).cloned().collect()
    }

    /// The next step in a direction.
    ///
    /// # Errors
    /// [`Refusal`] while a process is alive that the step would leave two phases behind, or ahead.
    pub fn next(&self, direction: Direction) -> Result<Step, Refusal> {
        let [start, goal] = match direction {
            Direction::Forward => [Phase::Old, Phase::New],
            Direction::Back => [Phase::New, Phase::Old],
        };
        let strangers = self.of(None);
        if !strangers.is_empty() {
            let why =
                "processes are in a migration with a store that is neither of the two; end one of \
                       the two migrations first"
                    .into();
            return Err(Refusal { why, who: strangers });
        }
        let [first, middle, last] = [start, Phase::Both, goal].map(|phase| self.of(Some(phase)));
        let wait = |phase, who, next| {
            let why = format!(
                "processes are still in phase {phase}; restart each in phase {next}, or wait until \
                 the record of one that has ended runs out"
            );
            Err(Refusal { why, who })
        };
        match (first.is_empty(), middle.is_empty(), last.is_empty()) {
            (true, true, true) => Ok(Step::Enter(start)),
            (false, true, true) => Ok(Step::Enter(Phase::Both)),
            (true, false, true) => Ok(Step::Enter(goal)),
            (true, true, false) => Ok(Step::Leave),
            (false, false, true) => wait(start, first, Phase::Both),
            (true, false, false) => wait(Phase::Both, middle, goal),
            (false, _, false) => {
                let why = format!("processes in phases {start} and {goal} are alive at once");
                Err(Refusal { why, who: [first, last].concat() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemEnv;

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

    fn fleet(phases: &[Phase]) -> Fleet {
        let member = |phase: &Phase| Member {
            phase: Some(*phase),
            label: OwnerLabel::new(format!("in {phase}")).unwrap(),
            remaining: Duration::from_secs(1),
        };
        Fleet { members: phases.iter().map(member).collect() }
    }

    #[test]
    fn a_step_is_refused_while_somebody_is_two_phases_away() {
        use Phase::{Both, New, Old};
        let next = |phases: &[Phase], direction| fleet(phases).next(direction);
        for (phases, forward, back) in [
            (&[][..], Some(Step::Enter(Old)), Some(Step::Enter(New))),
            (&[Old], Some(Step::Enter(Both)), Some(Step::Leave)),
            (&[Old, Both], None, None),
            (&[Both], Some(Step::Enter(New)), Some(Step::Enter(Old))),
            (&[Both, New], None, None),
            (&[New], Some(Step::Leave), Some(Step::Enter(Both))),
            (&[Old, New], None, None),
            (&[Old, Both, New], None, None),
        ] {
            assert_eq!(next(phases, Direction::Forward).ok(), forward, "{phases:?}");
            assert_eq!(next(phases, Direction::Back).ok(), back, "{phases:?}");
        }
        let refusal = next(&[Old, Both, Both], Direction::Forward).unwrap_err();
        assert_eq!(refusal.who.len(), 1);
        assert!(refusal.to_string().contains("in old"), "{refusal}");
    }
}
