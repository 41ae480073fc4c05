//! What a client, its guards and its tasks share: data, and no calls of the store.

mod alarm;
mod client_state;
mod held;
mod local_queues;
mod options;
mod renewer_queue;
mod telling;

pub use self::options::ClientOptions;
pub(super) use self::{
    alarm::Alarm,
    client_state::{ClientState, Handle, InFlight, closed},
    held::{End, Held, validity},
    local_queues::{Carried, First, LocalQueue},
    options::Wanted,
    renewer_queue::Tick,
    telling::{TARGET, ms},
};
