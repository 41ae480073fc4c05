//! Tries variants whose texts are changed between client and server.

use std::future::ready;

use futures_util::{StreamExt as _, future::join, stream};

use super::list::{Broken, Setup, check};

/// Each has two servers.
const VARIANTS_AT_ONCE: usize = 3;

/// Tries each variant of the list: with its guards the case passes, without them it fails. The two are tried
/// side by side, and some variants at once, since each waits for its server most of the time. `folders` are those of
/// the sources with the markers.
///
/// # Panics
/// If a case does not tell the two apart, or a guard was not sent, with all that went wrong.
pub async fn try_all<S: Setup>(folders: &[&str], list: &[Broken<S>]) {
    check(folders, list);
    let tried = stream::iter(list).map(try_one).buffer_unordered(VARIANTS_AT_ONCE);
    let wrong: Vec<_> = tried.filter_map(ready).collect().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns what went wrong.
async fn try_one<S: Setup>(Broken { what, changes, case }: &Broken<S>) -> Option<String> {
    let (mut sound, mut broken) = join(S::start(&[]), S::start(changes)).await;
    let (passed, verdict) = join(case(&mut sound), case(&mut broken)).await;
    let altered = broken.altered();
    println!("{what}: {verdict:?} ({altered} texts changed)");
    let wrong = match (passed, verdict) {
        (Err(why), _) => format!("fails with the guard: {why}"),
        _ if altered == 0 => "the guard was not sent, or is shorter than its replacement".into(),
        (Ok(()), Ok(())) => "SURVIVED".into(),
        (Ok(()), Err(why)) => is_no_program(&why)?.into(),
    };
    Some(format!("{what}: {wrong}"))
}

/// Without its guard the text has to be one that the server understands.
pub(super) fn is_no_program(why: &str) -> Option<&'static str> {
    let refusals =
        ["compiling script", "running script", "syntax error", "SQL syntax", "bind message"];
    refusals
        .iter()
        .any(|words| why.contains(words))
        .then_some("the server refuses the changed text")
}
