//! The data that a client, its guards and its tasks share. Nothing here calls the store.

mod alarm;
mod client_state;
mod events;
mod held;
mod local_queues;
mod options;
mod renewer_queue;

pub use self::options::ClientOptions;
pub(super) use self::{
    alarm::Alarm,
    client_state::{ClientState, Handle, InFlight, closed},
    events::{FailedRenewal, TARGET, ms},
    held::{End, Held, validity},
    local_queues::{Carried, FirstAttempt, Joined, LocalQueue, Place},
    options::Wanted,
    renewer_queue::Tick,
};
