//! Restored snapshots: how a client detects them, and the quarantine that follows.

mod check;
mod history;
mod quarantine;

pub(crate) use self::{
    check::RestoreCheck,
    history::HistoryToken,
    quarantine::{held_back, put_settings, quarantine},
};
