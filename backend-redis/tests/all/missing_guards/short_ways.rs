//! The short ways of acquire.lua and release.lua, and batch.lua, do the same as the long ways. Each
//! short way is broken once, and the comparison must find it.

use servers::Change::{self, LeaveOut, Replace};
use verification::missing_guards::Worlds;

use super::{
    server::{ACQUIRE, BATCH, RELEASE},
    text::whole,
};

/// The part of a script after its short ways.
fn long_way(script: &str) -> &str {
    &script[script.find("-- The long way.\n").expect("no long way")..]
}

/// The scripts of one server, and random requests to it.
fn worlds() -> Worlds {
    let limits = whole("-- include limits.lua\n");
    Worlds::default()
        .script("acquire", &ACQUIRE)
        .script("long_acquire", long_way(&ACQUIRE))
        .script("release", &RELEASE)
        .script("long_release", &[&limits, long_way(&RELEASE)].concat())
        .script("batch", &BATCH)
        .requests(include_str!("requests.lua"))
}

#[tokio::test]
async fn they_do_what_the_long_ways_do() {
    let kinds = ["attempt short", "attempt long", "release short", "release long", "batch short"];
    worlds().agree(&kinds).await;
}

/// Guards of the short ways.
pub(super) const VARIANTS: &[Change<'static>] = &[
    LeaveOut("short_version"),
    LeaveOut("short_epoch"),
    LeaveOut("short_failover"),
    LeaveOut("short_late"),
    LeaveOut("short_quarantine"),
    LeaveOut("short_watermark"),
    LeaveOut("short_floor"),
    LeaveOut("short_lease"),
    LeaveOut("short_mark"),
    Replace("short_free", "if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then"),
    Replace("short_free", "if redis.call('EXISTS', KEYS[2], KEYS[5]) == 0 then"),
    Replace("short_free", "if redis.call('EXISTS', KEYS[3], KEYS[5]) == 0 then"),
    LeaveOut("short_release_owner"),
    Replace("short_release", "if #ARGV == 3 and type(record) ~= 'table' then"),
    Replace("short_next", "if is_free and mine and ARGV[4] == '' and ARGV[5] ~= '' then"),
    Replace("short_next", "if mine and ARGV[4] == '' and ARGV[5] ~= '' then"),
    Replace("short_handover", "if not is_free and mine then"),
    LeaveOut("handover_lease"),
    LeaveOut("handover_floor"),
    LeaveOut("handover_tombstone"),
    Replace("handover_queue_life", "if false then"),
    LeaveOut("handover_entry_leaves"),
    LeaveOut("handover_dead_entry"),
    LeaveOut("handover_future_entry"),
    LeaveOut("handover_above_floor"),
    LeaveOut("handover_mark"),
    Replace("handover_claim", "call('SET', KEYS[2], given, 'PX', lease)"),
    Replace("handover_retry", "return FAR_MS .. ' ' .. CLAIM_MS .. ' ' .. given"),
    Replace("batch_release_queue", "if false then"),
    Replace("batch_release_owner", "elseif records[at] then"),
    LeaveOut("batch_run"),
    LeaveOut("batch_replid"),
    LeaveOut("batch_settings"),
    LeaveOut("batch_version"),
    LeaveOut("batch_failover"),
    LeaveOut("batch_watermark"),
    LeaveOut("batch_quarantine"),
    LeaveOut("batch_late"),
    LeaveOut("batch_mark"),
    Replace(
        "batch_mark",
        "if open then call('HSET', KEYS[1], 'mark', string.format('%.0f', token)) end",
    ),
    Replace("batch_free", "local free = true"),
    LeaveOut("batch_lease"),
    Replace("batch_once", "granted = call('SET', lock, record, 'PX', lease)"),
];

#[tokio::test]
async fn a_short_way_that_is_broken_is_found_out() {
    worlds().find_out(VARIANTS).await;
}
