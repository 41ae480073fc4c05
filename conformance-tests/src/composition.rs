//! The ways in which several locks are composed.

/// How the locks are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Composition {
    /// As the core does it.
    #[default]
    Sound,
    /// The first guard of a hold that is released ends it.
    ReleasesWithTheFirst,
    /// All are taken in the order in which they were given.
    TakesInAnyOrder,
    /// What was taken before one of all failed is kept.
    KeepsWhatItTook,
    /// Those of several that did not win go on waiting.
    KeepsLosers,
    /// There is a slot more than permits.
    OneSlotMore,
}
