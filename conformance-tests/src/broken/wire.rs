//! Tries variants whose texts are changed between client and server.

use futures_util::future::join;

use super::list::{Broken, Setup, check};

/// Tries each variant of the list: with its guards the case passes, without them it fails. The two are tried
/// side by side, since each waits for its server most of the time. `folders` are those of the sources with the
/// markers.
///
/// # Panics
/// If a case does not tell the two apart, or a guard was not sent, with all that went wrong.
pub async fn try_all<S: Setup>(folders: &[&str], list: &[Broken<S>]) {
    check(folders, list);
    let mut wrong = Vec::new();
    for Broken { what, changes, case } in list {
        let (mut sound, mut broken) = join(S::start(&[]), S::start(changes)).await;
        let (passed, verdict) = join(case(&mut sound), case(&mut broken)).await;
        let altered = broken.altered();
        println!("{what}: {verdict:?} ({altered} texts changed)");
        if let Err(why) = passed {
            wrong.push(format!("{what}: fails with the guard: {why}"));
        } else if altered == 0 {
            wrong.push(format!(
                "{what}: the guard was not sent, or is shorter than its replacement"
            ));
        } else if let Some(why) =
            verdict.map_or_else(|why| is_no_program(&why), |()| Some("SURVIVED"))
        {
            wrong.push(format!("{what}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
