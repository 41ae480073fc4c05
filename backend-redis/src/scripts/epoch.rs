//! The arguments that precede the own arguments of every script that may grant.

use std::time::Duration;

use super::arguments::Arguments;

/// The server's identity, the settings as the client knows them, and the time after which the
/// attempt is too late. common.lua explains each.
#[derive(Debug)]
pub(crate) struct Epoch<'a> {
    pub(crate) run: &'a str,
    pub(crate) replid: &'a str,
    pub(crate) longest: Duration,
    pub(crate) quarantine: bool,
    /// In µs of the server's clock.
    pub(crate) deadline: u64,
    /// In µs; empty if no replica may be promoted.
    pub(crate) margin: &'a str,
}

/// The positions of these arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each is an argument of its own, as in epoch_arguments.lua: four before the script's own
    /// arguments, and two after.
    Apart,
    /// Two arguments in front, as in acquire.lua: first all that is the same for every call, then
    /// the deadline. The script splits the first only if it needs the parts.
    Packed,
}

impl Epoch<'_> {
    /// All arguments of a script, including its own.
    pub(crate) fn around(&self, own: &Arguments, layout: Layout) -> Arguments {
        let Self { run, replid, longest, quarantine, deadline, margin } = self;
        let (longest, quarantine) = (longest.as_micros(), if *quarantine { "on" } else { "off" });
        // Each id has 40 digits.
        let mut all = Arguments::with_room(own.len() + 6, own.size() + 160);
        match layout {
            Layout::Apart => {
                all.add(run).add(replid).add(longest).add(quarantine);
                all.add_all(own).add(deadline).add(margin);
            }
            Layout::Packed => {
                let space = if margin.is_empty() { "" } else { " " };
                all.add(format_args!("{run} {replid} {longest} {quarantine}{space}{margin}"));
                all.add(deadline).add_all(own);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_stands_where_each_layout_says() {
        let mut epoch = Epoch {
            run: "a",
            replid: "b",
            longest: Duration::from_secs(30),
            quarantine: true,
            deadline: 7,
            margin: "",
        };
        let own = Arguments::from_iter([&b"x"[..], b""]);
        let shown = |epoch: &Epoch<'_>, layout| {
            let all = epoch.around(&own, layout);
            let words: Vec<_> = all.iter().map(String::from_utf8_lossy).collect();
            words.join("|")
        };
        assert_eq!(shown(&epoch, Layout::Apart), "a|b|30000000|on|x||7|");
        assert_eq!(shown(&epoch, Layout::Packed), "a b 30000000 on|7|x|");
        epoch.margin = "5";
        assert_eq!(shown(&epoch, Layout::Apart), "a|b|30000000|on|x||7|5");
        assert_eq!(shown(&epoch, Layout::Packed), "a b 30000000 on 5|7|x|");
    }
}
