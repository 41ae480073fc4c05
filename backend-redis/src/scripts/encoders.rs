//! The arguments of the scripts, by the names that each script declares.

use std::{fmt, time::Duration};

use lock_core::{FencingToken, Grant, Mode, OwnerId, RecordWrite, Request, whole_millis as millis};

use super::arguments::{Arguments, arguments, declared};

/// A floor, which is empty if it is zero.
fn floor(request: &Request) -> Field<FencingToken> {
    Field(Some(request.floor).filter(|floor| *floor != FencingToken::ZERO))
}

/// The mode of a request: empty for a writer's, as most are.
fn mode(request: &Request) -> &'static str {
    match request.mode {
        Mode::Shared => "r",
        _ => "",
    }
}

/// The arguments of `acquire.lua`. `channel` is empty if no queue entry is wanted.
pub(crate) fn acquire(request: &Request, channel: &str) -> Arguments {
    let Request { owner, lease, label, .. } = request;
    arguments!("acquire.lua": owner, lease = millis(*lease), label,
        floor = floor(request), channel, mode = mode(request))
}

/// The arguments of `release.lua`. `keep` is how long the record is kept, and `next` the process's
/// own next request with the channel for its pushes.
pub(crate) fn release(
    owner: OwnerId,
    keep: Option<Duration>,
    next: Option<(&Request, &str)>,
) -> Arguments {
    let keep = Field(keep.map(millis));
    let of = |field: fn(&Request) -> String| Field(next.map(|(request, _)| field(request)));
    arguments!("release.lua": owner, keep,
        next_owner = of(|next| next.owner.to_string()),
        next_lease = of(|next| millis(next.lease).to_string()),
        next_label = of(|next| next.label.to_string()),
        next_floor = of(|next| floor(next).to_string()),
        next_channel = Field(next.map(|(_, channel)| channel)),
        next_mode = of(|next| mode(next).to_owned()))
}

/// An argument that may be missing, which is the empty text.
struct Field<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}

/// The arguments of `renew.lua`: owner and lease of each lock.
pub(crate) fn renewals(grants: impl ExactSizeIterator<Item = (OwnerId, Duration)>) -> Arguments {
    declared!("renew.lua": ; grants);
    let mut arguments = Arguments::with_room(2 * grants.len(), 40 * grants.len());
    for (owner, lease) in grants {
        arguments.add(owner).add(millis(lease));
    }
    arguments
}

/// The text of a writer's entry behind its time, as acquire.lua writes it.
pub(crate) fn entry_of(request: &Request, channel: &str) -> String {
    let Request { lease, floor, label, .. } = request;
    format!(" w {} {floor} {channel} {label}", millis(*lease))
}

/// The arguments of `heartbeat.lua`, which reads the last `read` locks.
pub(crate) fn heartbeats(
    owners: impl Iterator<Item = OwnerId>,
    entry: &str,
    read: usize,
) -> Arguments {
    let mut arguments = arguments!("heartbeat.lua": entry, read; owners);
    owners.for_each(|owner| _ = arguments.add(owner));
    arguments
}

/// The arguments of `abandon.lua`.
pub(crate) fn abandon(leaver: OwnerId) -> Arguments {
    arguments!("abandon.lua": leaver)
}

/// The arguments of `raise.lua`.
pub(crate) fn raise(raiser: OwnerId, wanted: FencingToken) -> Arguments {
    arguments!("raise.lua": raiser, wanted)
}

/// The arguments of `reown.lua`.
pub(crate) fn reown(grant: &Grant, request: &Request) -> Arguments {
    let Request { owner, lease, label, .. } = request;
    arguments!("reown.lua": former = grant.owner, token = grant.token, owner,
        lease = millis(*lease), label)
}

/// The arguments of `identity.lua`, with a random name.
pub(crate) fn identity(random: u128) -> Arguments {
    arguments!("identity.lua": name = format_args!("{random:032x}"))
}

/// The arguments of `init.lua`. A setting that is `None` keeps its present value.
pub(crate) fn init(
    first_use: bool,
    reset_tokens: bool,
    longest: Option<Duration>,
    quarantine: Option<bool>,
    records_complete: bool,
) -> Arguments {
    let action = match (first_use, reset_tokens) {
        (true, _) => "1",
        (false, true) => "2",
        (false, false) => "0",
    };
    arguments!("init.lua": action,
        new_longest = Field(longest.map(|longest| longest.as_micros())),
        new_quarantine = Field(quarantine.map(|on| if on { "on" } else { "off" })),
        records = if records_complete { "complete" } else { "" })
}

/// The arguments of `first_use.lua`. `witness` is whether the witness was there; `None` to write a
/// candidate.
pub(crate) fn first_use(nonce: u128, witness: Option<bool>) -> Arguments {
    let witness = witness.map(|known| if known { "known" } else { "unknown" });
    arguments!("first_use.lua": nonce = format_args!("{nonce:032x}"), witness = Field(witness))
}

/// The arguments of `write_record.lua`. `flushed` says whether the server flushes each write.
pub(crate) fn record_write(grant: &Grant, write: &RecordWrite, flushed: bool) -> Arguments {
    declared!("write_record.lua": writer token number keep flushed value);
    let mut arguments = Arguments::with_room(6, write.value.len() + 80);
    arguments.add(grant.owner).add(grant.token).add(write.number).add(millis(write.keep_for));
    arguments.add(if flushed { "yes" } else { "" }).add_bytes(&write.value);
    arguments
}

/// The arguments of `fence.lua`: a fenced write.
pub(crate) fn fenced_write(token: FencingToken, value: &[u8]) -> Arguments {
    declared!("fence.lua": token value);
    let mut arguments = Arguments::with_room(2, value.len() + 20);
    arguments.add(token).add_bytes(value);
    arguments
}
