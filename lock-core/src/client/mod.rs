//! The client: all policy that is the same for every store. Start with `lock_client`, `acquire` and
//! `guard`.

mod acquire;
mod acquire_events;
mod calls;
mod detached_lock;
mod guard;
mod hand_over;
mod latch;
mod lock;
mod lock_client;
mod monitor;
mod once;
mod operators;
mod record;
mod renewal;
mod renewal_health;
mod several;
mod state;
mod waiting;
mod with;

#[cfg(feature = "testing")]
pub(crate) use self::lock_client::WeakClient;
pub use self::{
    acquire::TryAcquire,
    detached_lock::DetachedLock,
    guard::Guard,
    latch::Latch,
    lock::Lock,
    lock_client::LockClient,
    monitor::Monitor,
    once::{Decision, Doubt, DueRun, IfUnknown, LastRun, Once, RunState, UnknownRun},
    operators::StoreCheck,
    renewal_health::RenewalHealth,
    several::{All, Any, Election, Guards, Leader, LeaderWord, Leadership, Semaphore, all, any},
    state::ClientOptions,
    with::{Finished, WithError},
};
