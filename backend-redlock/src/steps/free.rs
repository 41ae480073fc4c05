//! Removes, in the background, what nodes keep of an attempt or a grant.

use std::{sync::Arc, time::Duration};

use lock_core::{Env as _, Grant, Request, SystemEnv, jittered};

use crate::{
    protocol::grant_votes::GrantVotes,
    quorum::nodes::Quorum,
    scripts::{ScriptCall, free::Free},
    tunables::{ENTRY_LIFE, FREE_PAUSES},
};

/// Repeats a call on one node until it is answered, or until `limit` is over and the lease with it.
pub(crate) fn free_in_background(
    quorum: &Arc<Quorum>,
    at: usize,
    call: Arc<ScriptCall>,
    limit: Duration,
) {
    let own = Arc::clone(quorum);
    quorum.spawn_background(async move {
        let end = SystemEnv.now() + limit;
        let [mut pause, longest] = FREE_PAUSES;
        while own.put(at, &call).await.is_err() {
            if SystemEnv.now() >= end || own.is_closing() {
                return;
            }
            tokio::time::sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(longest);
        }
    });
}

/// Takes back what one node gave to an attempt. Later attempts of the same owner keep their locks.
/// `doubtful`: the attempt may still arrive, and must then take nothing.
pub(crate) fn undo(
    quorum: &Arc<Quorum>,
    at: usize,
    request: &Request,
    attempt: u64,
    doubtful: bool,
) {
    let tombstone = doubtful.then_some(attempt);
    let free = Free { up_to: Some(attempt), tombstone, ..Free::default() };
    let call = free.call(&quorum.nodes[0].server, &request.name, request.owner);
    free_in_background(quorum, at, call, request.lease);
}

/// Frees what nodes gave, or may still give, to the attempt of a grant. If a later attempt of the
/// same owner got something, that stays.
pub(crate) fn take_back(quorum: &Arc<Quorum>, grant: &Grant) {
    let number = Some(GrantVotes::of(grant).map_or(0, |held| held.attempt));
    let free = Free { up_to: number, tombstone: number, ..Free::default() };
    let call = free.call(&quorum.nodes[0].server, &grant.name, grant.owner);
    for at in 0..quorum.nodes.len() {
        free_in_background(quorum, at, Arc::clone(&call), grant.lease);
    }
}

/// Notes a node's answer to the release of a grant (whether it held the lock), or that no answer
/// will come.
pub(crate) fn freed(
    quorum: &Arc<Quorum>,
    at: usize,
    grant: &Grant,
    held: &GrantVotes,
    said: Option<bool>,
) {
    if held.freed(at, said) {
        let call = Free::default().call(&quorum.nodes[0].server, &grant.name, grant.owner);
        free_in_background(quorum, at, call, grant.lease);
    }
}

/// Removes the queue entries of an owner that no longer waits. If the owner joins again, it may
/// have no entry on a node until its next attempt.
pub(crate) fn leave_queues(
    quorum: &Arc<Quorum>,
    request: &Request,
    nodes: impl IntoIterator<Item = usize>,
) {
    for at in nodes {
        let free = Free { up_to: Some(0), leave_queue: true, ..Free::default() };
        let call = free.call(&quorum.nodes[0].server, &request.name, request.owner);
        free_in_background(quorum, at, call, ENTRY_LIFE);
    }
}
