//! Locks in any store that compares and swaps.
//!
//! Each name has one object, its [`Record`]. Each step reads it, decides ([`decide`]) and writes it
//! on the condition that its version is still there. The store needs three calls ([`CasStore`]) and
//! no clock.
//!
//! 1. **A nonce in every write.** Any newer write makes every earlier request fail, however late it
//!    comes. So to give an owner up is to write a new nonce on whatever is there. Objects are never
//!    deleted: after a deletion, a late first write would succeed.
//! 2. **Expiry by observation.** The holder's *beat* is the nonce of its last write. Another client
//!    counts the lease and a margin on its own clock, from the moment when the first answer with
//!    this beat had come. Then it writes itself into the record, on the condition of the version
//!    that it has read. A renewal changes the version, so the holder and the other client cannot
//!    both succeed.
//! 3. **No answer, or a refusal, is unknown** until the client has read the record again. Its own
//!    nonce there says that it has succeeded; its owner id, that it holds the lock.

mod backend;
mod decide;
mod guarantees;
mod keys;
mod observed;
mod record;
mod runner;
mod settings;
mod store;
mod tries;

pub use self::{
    backend::{CasBackend, CasOptions},
    decide::{Answer, Decision, Step, Verb, decide},
    record::{Held, Nonce, Record, Value},
    store::{CasStore, Object, Put, Version},
};
