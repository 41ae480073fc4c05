//! The calls to the store, each of which runs to its end; and the clean-up after calls that failed or lost their caller.

mod attempt;
mod backoff;
mod call;
mod loss;
mod release;

pub(super) use self::{
    attempt::{
        abandon, after_asking, after_attempt, after_doubtful_enqueue, after_enqueue, attempt,
        clean_up_carried, enqueue, give_back, leave,
    },
    backoff::Backoff,
    call::{Call, CleanUp},
    loss::{check, check_at, expire, lose, remaining},
    release::{after_release, let_go, release},
};
