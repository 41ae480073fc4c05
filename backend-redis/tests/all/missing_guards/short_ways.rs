//! The common cases of acquire.lua and release.lua, and batch.lua, do the same as the rest of these
//! scripts. Each is broken once, and the comparison must find it.

use servers::{
    Change::{self, LeaveOut, Replace},
    marker,
};
use verification::missing_guards::Worlds;

use super::server::{ACQUIRE, BATCH, RELEASE};

/// A script without its common case.
fn long_way(script: &str, guard: &str, never: &str) -> String {
    let (before, from) = script.split_once(&marker(guard)).expect("no common case");
    let (_, behind) = from.split_once('\n').expect("no line");
    [before, never, "\n", behind].concat()
}

/// The scripts of one server, and random requests to it.
fn worlds() -> Worlds {
    Worlds::default()
        .script("acquire", &ACQUIRE)
        .script("long_acquire", &long_way(&ACQUIRE, "free", "if false then"))
        .script("release", &RELEASE)
        .script("long_release", &long_way(&RELEASE, "release_plain", "plain = false"))
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
    Replace("free", "if not reader and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then"),
    Replace("free", "if not reader and redis.call('EXISTS', KEYS[2], KEYS[5]) == 0 then"),
    Replace("free", "if not reader and redis.call('EXISTS', KEYS[3], KEYS[5]) == 0 then"),
    LeaveOut("release_plain"),
    Replace("next_free", "if plain and not waited and not reader then"),
    Replace("batch_release_queue", "if false then"),
    Replace("batch_release_owner", "elseif records[at] then"),
    Replace("batch_admit", "local mark = 0"),
    LeaveOut("batch_mark"),
    Replace("batch_mark", "if open then call('HSET', KEYS[1], 'mark', text(token)) end"),
    Replace("batch_free", "local free = true"),
    LeaveOut("batch_lease"),
    Replace(
        "batch_once",
        "granted = granted and call('SET', lock, owner .. ' ' .. text(token) .. ' 0 ' .. label, 'PX', lease)",
    ),
];

#[tokio::test]
async fn a_short_way_that_is_broken_is_found_out() {
    worlds().find_out(VARIANTS).await;
}
