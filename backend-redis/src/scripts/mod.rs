//! The Lua scripts. Beside each stands the Rust file that writes its arguments, in the order that
//! the script's header declares.

mod acquire;
mod admin;
mod arguments;
mod batch;
mod epoch;
mod fence;
mod heartbeat;
mod owned;
mod release;
mod renew;
pub(crate) mod reply;
mod script;
mod text;

pub(crate) use self::{
    acquire::{ACQUIRE, acquire},
    admin::{FORCE, IDENTITY, INIT, INSPECT, InitArguments},
    arguments::Arguments,
    batch::{BATCH, Batch, Plain, PlainAttempt},
    epoch::{Epoch, Layout},
    fence::{FENCE, fenced_write},
    heartbeat::{HEARTBEAT, entry_of, heartbeats},
    owned::{ABANDON, RAISE, abandon, raise},
    release::{RELEASE, Release},
    renew::{RENEW, renewals},
    script::{COMMON, Script},
};
