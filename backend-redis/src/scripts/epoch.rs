//! The arguments that precede the own arguments of every script that may grant.

use std::time::Duration;

use super::arguments::Arguments;

/// The server's identity, the settings as the client knows them, and the time after which the
/// attempt is too late. epoch.lua explains each.
#[derive(Debug)]
pub(crate) struct Epoch<'a> {
    pub(crate) run: &'a str,
    pub(crate) replid: &'a str,
    pub(crate) longest: Duration,
    pub(crate) quarantine: bool,
    /// In µs; empty if no replica may be promoted.
    pub(crate) margin: &'a str,
    /// In µs of the server's clock.
    pub(crate) deadline: u64,
}

impl Epoch<'_> {
    /// All arguments of a script: those of `EPOCH_ARGUMENTS`, then its own.
    pub(crate) fn before(&self, own: &Arguments) -> Arguments {
        let Self { run, replid, longest, quarantine, margin, deadline } = self;
        let quarantine = if *quarantine { "on" } else { "off" };
        // Each id has 40 digits.
        let mut all = Arguments::with_room(own.len() + 6, own.size() + 160);
        all.add(run).add(replid).add(longest.as_micros()).add(quarantine).add(margin).add(deadline);
        all.add_all(own);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{super::text::EPOCH_ARGUMENTS, *};

    #[test]
    fn the_epoch_stands_where_the_scripts_read_it() {
        let longest = Duration::from_secs(30);
        let epoch =
            Epoch { run: "a", replid: "b", longest, quarantine: true, margin: "5", deadline: 7 };
        let all = epoch.before(&Arguments::from_iter([&b"x"[..], b""]));
        let words: Vec<_> = all.iter().map(String::from_utf8_lossy).collect();
        assert_eq!(words, ["a", "b", "30000000", "on", "5", "7", "x", ""]);
        assert_eq!(EPOCH_ARGUMENTS, "run replid longest quarantine margin deadline");
    }
}
