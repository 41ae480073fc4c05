//! acquire_fast.lua and batch.lua do the same as acquire.lua and free.lua. Each is broken once, and
//! the comparison must find it.

use servers::Change::{self, LeaveOut, Replace};
use verification::missing_guards::Worlds;

use super::node::{ACQUIRE, ACQUIRE_SHARED, BATCH, FREE};

/// The scripts of one node, and random requests to it.
fn worlds() -> Worlds {
    Worlds::default()
        .script("acquire", ACQUIRE.text())
        .script("long_acquire", ACQUIRE_SHARED.text())
        .script("free", FREE.text())
        .script("batch", BATCH.text())
        .requests(include_str!("requests.lua"))
}

#[tokio::test]
async fn they_do_what_the_long_ways_do() {
    worlds().agree(&["attempt short", "attempt long", "batch short"]).await;
}

/// Guards of the short ways.
pub(super) const VARIANTS: &[Change<'static>] = &[
    LeaveOut("short_version"),
    LeaveOut("short_epoch"),
    LeaveOut("short_quarantine"),
    LeaveOut("short_clock"),
    LeaveOut("short_behind"),
    LeaveOut("short_late"),
    LeaveOut("short_floor"),
    Replace("short_lease", "if true"),
    LeaveOut("short_crowd"),
    Replace("short_watermark", "local least = floor"),
    Replace("short_held", "if redis.call('SET', KEYS[2], record, 'PX', lease) then"),
    Replace("short_notes", "redis.call('HSET', KEYS[1], watermark, text, 'clock', stamp)"),
    Replace("batch_crowd", "local crowded = false"),
    Replace("batch_release_owner", "elseif record then"),
    LeaveOut("batch_epoch"),
    LeaveOut("batch_version"),
    LeaveOut("batch_quarantine"),
    LeaveOut("batch_clock"),
    LeaveOut("batch_behind"),
    LeaveOut("batch_late"),
    LeaveOut("batch_lease"),
    Replace("batch_proposal", "if false then"),
    Replace(
        "batch_held",
        "taken = call('SET', KEYS[first + at - 1], record, 'PX', step == 3 and ARGV[own + 2] or lease)",
    ),
];

#[tokio::test]
async fn a_short_way_that_is_broken_is_found_out() {
    worlds().find_out(VARIANTS).await;
}
