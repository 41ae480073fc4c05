//! The Lua scripts. Each names its arguments in its header, and the encoder in Rust names the same.

pub(crate) mod arguments;
mod batch;
mod encoders;
mod epoch;
pub(crate) mod reply;
mod script;
mod text;

pub(crate) use self::{
    arguments::Arguments,
    batch::{Batch, Plain, PlainAttempt},
    encoders::{
        abandon, acquire, entry_of, fenced_write, first_use, heartbeats, identity, init, raise,
        record_write, release, renewals, reown,
    },
    epoch::Epoch,
    script::{
        ABANDON, ACQUIRE, BATCH, FENCE, FIRST_USE, FORCE, HEARTBEAT, IDENTITY, INIT, INSPECT,
        RAISE, READ_RECORD, RELEASE, RENEW, REOWN, Script, WRITE_RECORD, server,
    },
    text::part,
};
