//! All processes of a migration and their phases, as their records show them.

use lock_core::{Backend, Error, Holder};
use serde::Serialize;

use crate::{
    member::Member,
    phase::Phase,
    record::{UsedStores, digests, read_records},
    refusal::Refusal,
};

/// The processes of a migration, as their records show them.
///
/// A process that uses one of the stores directly, by the URL of that store, keeps no record and is
/// not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Its processes, ordered by phase and label.
    pub members: Vec<Member>,
}

/// In which direction a migration goes.
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
    /// Restart each with the URL of the only store that is still in use: the new one, or going back
    /// the old one.
    Leave,
}

impl Fleet {
    /// Reads the records in both stores. This costs as much as a listing of all held locks.
    ///
    /// # Errors
    /// Those of either store: without reading both, a record cannot be ruled out.
    pub async fn survey(old: &dyn Backend, new: &dyn Backend) -> Result<Self, Error> {
        let digests = digests([old, new]).await?;
        let member = |(uses, holder): (UsedStores, Holder)| Member {
            phase: uses.phase(&digests),
            label: holder.label,
            remaining: holder.remaining,
        };
        let mut members: Vec<_> =
            read_records([old, new]).await?.into_values().map(member).collect();
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
    /// [`Refusal`] while the step would leave a running process two phases behind or ahead.
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
    use std::time::Duration;

    use lock_core::OwnerLabel;

    use super::*;

    fn fleet(phases: &[Phase]) -> Fleet {
        let member = |phase: &Phase| Member {
            phase: Some(*phase),
            label: OwnerLabel::new(format!("in {phase}")).unwrap(),
            remaining: Duration::from_secs(1),
        };
        Fleet { members: phases.iter().map(member).collect() }
    }

    #[test]
    fn a_step_is_refused_while_a_process_is_two_phases_away() {
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
