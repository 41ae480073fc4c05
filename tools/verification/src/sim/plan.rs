//! The plan of a run: drawn from its seed, except for the mutant.

use std::time::Duration;

use super::world::World;

/// A part that is broken on purpose. The simulation must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutant {
    /// The store sometimes grants what is held.
    GrantsTwice,
    /// The lease counts from the reply instead of from before the request (S3).
    CountsFromReply,
    /// `Busy` names no token, so that an old push cannot be told from a new one (S3).
    OldPushes,
    /// A pushed grant is taken for a grant of the whole lease (S3).
    PushesForTheLease,
    /// The clock stands still while the process is stopped (S3).
    ClockStops,
    /// Tokens come from a counter that forgets (S2).
    TokensForget,
    /// A release frees the name of any holder (S4).
    ReleasesOthers,
    /// A renewal makes a lost grant anew (S5).
    Resurrects,
    /// A late request of an abandoned attempt is served (S6).
    NoTombstones,
    /// A clean-up does nothing and answers success (S6).
    AbandonsNothing,
    /// A renewal without an answer is reported as a loss (S6).
    LosesOnSilence,
    /// A release without an answer is reported as success (S6).
    ReleasesOnce,
    /// Waiters get no signal, and `Busy` says to poll in an hour (L2).
    NeverWakes,
    /// An attempt without a queue entry passes waiters (L3).
    Barges,
    /// A semaphore has one slot more than permits (S1).
    OneSlotMore,
    /// The release of one reader ends the holds of the others (S1).
    EndsWithTheFirstReader,
    /// A reader gets the token of the last writer (S2).
    ReadersTakeTheLastToken,
    /// A holder whose lease is over writes the record (S7).
    WritesForFormerHolders,
    /// The store answers with the record before the last (S7).
    ReadsOldRecords,
    /// A crash that loses records is not told (S7).
    HidesLosses,
}

/// Every mutant, with the requirement that it breaks and the words of the finding meant for it.
pub const MUTANTS: &[(Mutant, &str, &str)] = &[
    (Mutant::GrantsTwice, "S1", "Exclusion broken"),
    (Mutant::CountsFromReply, "S3", "Exclusion broken"),
    (Mutant::OldPushes, "S3", "Exclusion broken"),
    (Mutant::PushesForTheLease, "S3", "Exclusion broken"),
    (Mutant::ClockStops, "S3", "Exclusion broken"),
    (Mutant::TokensForget, "S2", "Tokens broken"),
    (Mutant::ReleasesOthers, "S4", "Exclusion broken"),
    (Mutant::Resurrects, "S5", "Exclusion broken"),
    (Mutant::NoTombstones, "S6", "was left behind"),
    (Mutant::AbandonsNothing, "S6", "was left behind"),
    (Mutant::LosesOnSilence, "S6", "and the store has it"),
    (Mutant::ReleasesOnce, "S6", "was left behind"),
    (Mutant::NeverWakes, "L2", "tasks left"),
    (Mutant::Barges, "L3", "Fairness broken"),
    (Mutant::OneSlotMore, "S1", "Permits broken"),
    (Mutant::EndsWithTheFirstReader, "S1", "Exclusion broken"),
    (Mutant::ReadersTakeTheLastToken, "S2", "Tokens broken"),
];

/// The mutants of [`month`](super::month), with the words of the finding meant for each.
pub const MONTH_MUTANTS: &[(Mutant, &str)] = &[
    (Mutant::WritesForFormerHolders, "has already run"),
    (Mutant::ReadsOldRecords, "has already run"),
    (Mutant::HidesLosses, "has already run"),
];

/// The odds of a run, in thousandths of the calls.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many processes there are.
    pub processes: u32,
    /// How many tasks each has.
    pub tasks: u32,
    /// How many names they use.
    pub names: u32,
    /// How many acquisitions each task makes.
    pub rounds: u32,
    /// No faults and no pauses: the run is checked for fairness.
    pub calm: bool,
    /// Requests that are lost.
    pub lost_requests: u64,
    /// Replies that are lost.
    pub lost_replies: u64,
    /// Requests or replies that take seconds.
    pub slow: u64,
    /// Requests that are carried out twice.
    pub twice: u64,
    /// Calls that fail at once, and do nothing.
    pub refused: u64,
    /// Errors that no repetition mends.
    pub permanent: u64,
    /// Waiters that get a signal without a reason: that their queue entry is gone, or that they
    /// should poll.
    pub alarms: u64,
    /// Renewals whose answer is missing from the answer to their batch.
    pub silent_renewals: u64,
    /// Pushes that are lost.
    pub lost_pushes: u64,
    /// Pushes that take up to four seconds, which is more than a claim window.
    pub late_pushes: u64,
    /// Whether a release carries the next request.
    pub carries: bool,
    /// Operations on several locks: all, any, a permit, an election.
    pub composed: u64,
    /// Acquisitions by readers.
    pub readers: u64,
    /// Acquire futures that are dropped.
    pub cancelled: u64,
    /// Pauses, kills, quarantines and the like, each this often in the run.
    pub disasters: u64,
    /// Whether a process may be killed.
    pub kills: bool,
    /// Whether a client may be closed.
    pub closes: bool,
    /// When the faults stop, from the start of the run.
    pub faults_for: Duration,
    /// What is broken on purpose.
    pub mutant: Option<Mutant>,
}

impl Plan {
    /// Draws a plan. One in eight runs is calm; of the others each has its own mixture of faults.
    #[must_use]
    pub fn draw(world: &World, mutant: Option<Mutant>) -> Self {
        let calm = world.roll(8) == 0;
        let often = |most: u64| if calm || world.chance(400) { 0 } else { world.roll(most) };
        let mut plan = Self {
            processes: 2 + world.roll(2) as u32,
            tasks: if calm { 1 } else { 1 + world.roll(3) as u32 },
            names: 1 + world.roll(2) as u32,
            rounds: 2 + world.roll(3) as u32,
            calm,
            lost_requests: often(150),
            lost_replies: often(200),
            slow: often(150),
            twice: often(200),
            refused: often(150),
            permanent: if world.chance(150) { often(40) } else { 0 },
            alarms: often(300),
            silent_renewals: often(200),
            lost_pushes: often(500),
            late_pushes: often(300),
            carries: world.chance(700),
            composed: if calm { 0 } else { 300 },
            readers: if world.chance(500) { world.roll(900) } else { 0 },
            cancelled: often(400),
            disasters: often(6),
            kills: !calm && world.chance(200),
            closes: !calm && world.chance(200),
            faults_for: Duration::from_millis(1_000 + world.roll(5_000)),
            mutant,
        };
        if mutant == Some(Mutant::OldPushes) {
            // The mutant shows only if a push comes after its claim window, to a waiter that has
            // polled since.
            (plan.calm, plan.lost_pushes, plan.late_pushes) = (false, 0, 900);
            (plan.slow, plan.alarms, plan.cancelled, plan.composed) = (0, 0, 0, 0);
            (plan.processes, plan.names, plan.rounds) = (3, 1, 4);
        }
        plan
    }
}
