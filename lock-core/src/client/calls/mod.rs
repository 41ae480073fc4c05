//! The calls to the store. Each runs to its end, and is cleaned up if it failed or its caller has
//! gone.

mod attempt;
mod backoff;
mod call;
mod hand_over;
mod loss;
mod record;
mod release;

pub(super) use self::{
    attempt::{
        abandon, after_abandoned, after_attempt, after_enqueue, attempt, clean_up_carried, enqueue,
        leave, release_unused,
    },
    backoff::Backoff,
    call::{Call, CleanUp},
    hand_over::{after_confirm, after_reown, confirm, reown},
    loss::{check, check_at, expire, lose, remaining},
    record::{after_write, write_record},
    release::{after_release, release, release_in_background},
};
