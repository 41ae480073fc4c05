//! The restore of a snapshot: how a client notices it, and the quarantine that follows.

mod guard;
mod history;
mod quarantine;

pub(crate) use self::{
    guard::RestoreGuard,
    history::HistoryToken,
    quarantine::{held_back, put_settings, quarantine},
};
