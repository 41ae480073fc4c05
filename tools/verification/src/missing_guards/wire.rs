//! Tries broken variants: a proxy changes the texts between client and server.

use std::future::ready;

use futures_util::{StreamExt as _, future::join, stream};

use super::list::{MissingGuard, Setup, check};

/// How many variants run at the same time. Each has two servers.
const VARIANTS_AT_ONCE: usize = 3;

/// Tries each variant of the list: the case must pass with the guards, and fail without them. Both
/// run at the same time, and some variants, too, since each mostly waits for its server. `folders`
/// have the sources with the markers.
///
/// # Panics
/// If a case has the same result with and without its guards, or if a guard was never sent to the
/// server.
pub async fn try_all<S: Setup>(folders: &[&str], list: &[MissingGuard<S>]) {
    check(folders, list);
    let tried = stream::iter(list).map(try_one).buffer_unordered(VARIANTS_AT_ONCE);
    let wrong: Vec<_> = tried.filter_map(ready).collect().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns what went wrong.
async fn try_one<S: Setup>(
    MissingGuard { what, changes, case }: &MissingGuard<S>,
) -> Option<String> {
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

/// Whether the server refused the text: without its guard the text must still be valid.
pub(super) fn is_no_program(why: &str) -> Option<&'static str> {
    let refusals =
        ["compiling script", "running script", "syntax error", "SQL syntax", "bind message"];
    refusals
        .iter()
        .any(|words| why.contains(words))
        .then_some("the server refuses the changed text")
}
