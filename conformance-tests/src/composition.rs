//! How a case composes several locks and records: as the core does, or with one flaw.

/// A sound composition, or a flaw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Composition {
    /// As the core composes them.
    #[default]
    Sound,
    /// The release of the first guard of a hold ends the hold.
    ReleasesWithTheFirst,
    /// `all` acquires the locks in the order of its arguments.
    TakesInAnyOrder,
    /// `all` keeps the locks that it has when a later one fails.
    KeepsWhatItTook,
    /// After `any` has one lock, the other waits go on.
    KeepsLosers,
    /// A semaphore has one slot more than permits.
    OneSlotMore,
    /// A latch opens if the store does not answer.
    OpensWithoutAnAnswer,
}
