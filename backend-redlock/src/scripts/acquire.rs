//! The arguments of `acquire.lua`: one node's vote on an attempt.

use std::sync::{Arc, LazyLock};

use backend_redis::node::{Node as Server, Script};
use lock_core::{Mode, Request};

use super::{ScriptCall, arguments, millis, watermark};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("acquire_fast.lua"), include_str!("acquire.lua")))
});
/// For readers: `acquire_fast.lua` takes locks only for writers.
static ACQUIRE_SHARED: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("acquire.lua")));

/// Times are of the nodes' clock, in microseconds.
pub(crate) struct Acquire<'a> {
    pub(crate) request: &'a Request,
    /// The number proposed as the token.
    pub(crate) proposed: u64,
    pub(crate) bound: u64,
    /// The number of the attempt.
    pub(crate) number: u64,
    /// The clock after which the attempt is late.
    pub(crate) late: u64,
    pub(crate) clock: u64,
    /// Channel and rank of the queue entry, if one is wanted.
    pub(crate) entry: Option<(&'a str, u64)>,
}

impl Acquire<'_> {
    pub(crate) fn call(self, server: &Server) -> Arc<ScriptCall> {
        let Self { request, proposed, bound, number, late, clock, entry } = self;
        let (channel, rank) = entry.unwrap_or_default();
        let (script, mode): (&'static Script, _) = match request.mode {
            Mode::Shared => (&ACQUIRE_SHARED, "r"),
            _ => (&ACQUIRE, ""),
        };
        let arguments = arguments!("acquire.lua":
            owner = request.owner,
            lease = millis(request.lease),
            label = request.label,
            floor = request.floor,
            proposed,
            bound,
            attempt = number,
            late_after = late,
            watermark = watermark(&request.name),
            estimated = clock,
            channel,
            rank,
            mode);
        ScriptCall::granting(script, server.keys(&request.name, request.owner), arguments)
    }
}
