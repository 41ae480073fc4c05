//! Tries the broken variants that the markers of a store name.

use std::{collections::BTreeMap, env, future::ready, panic::AssertUnwindSafe};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use servers::Change;

use super::{
    cases::common,
    copies,
    markers::{Variant, variants},
    record_cases::of_records,
    setup::{Case, Clients, LIMIT, Setup, Verdict},
    suite::suite,
};

/// How many cases run at the same time. Each has a server, and mostly waits for it.
const AT_ONCE: usize = 6;

/// The guards in some sources, and what was wrong with those that were tried.
#[must_use = "`end` has the checks"]
pub struct Trial {
    untried: BTreeMap<String, Variant>,
    wrong: Vec<String>,
}

impl Trial {
    /// Of the Lua and SQL files at or below these paths. If the environment variable
    /// `LEASEHOLD_GUARD` is set, only of the variants with this text in their names.
    pub fn of(paths: &[&str]) -> Self {
        let mut untried = variants(paths);
        if let Ok(wanted) = env::var("LEASEHOLD_GUARD") {
            untried.retain(|name, _| name.contains(&wanted));
        }
        Self { untried, wrong: Vec::new() }
    }

    /// Tries the variants whose cases are in the table: each case must pass with all guards, and
    /// fail in the variant.
    pub async fn on<S: Setup>(&mut self, table: Vec<Case<S>>) {
        self.run(&table, &[]).await;
    }

    /// The same, on a store that also has the common cases and those of the conformance suite.
    pub async fn on_clients<S: Clients>(&mut self, table: Vec<Case<S>>) {
        let shared: Vec<_> = common().into_iter().chain(of_records()).chain(suite()).collect();
        self.run(&table, &shared).await;
    }

    async fn run<S: Setup>(&mut self, own: &[Case<S>], shared: &[Case<S>]) {
        let find = |name: &str| own.iter().chain(shared).find(|case| case.name == name);
        if let Some((name, argument)) = copies::case_of_this_copy() {
            let case = find(&name).expect("the case of this copy");
            return copies::report(&verdict(case, &argument, &mut S::start(&[]).await).await);
        }
        let filtered = env::var_os("LEASEHOLD_GUARD").is_some();
        let is_named = |case: &&Case<S>| self.untried.values().any(|it| it.case == case.name);
        let unnamed = own.iter().filter(|case| !filtered && !is_named(case));
        self.wrong.extend(unnamed.map(|case| format!("no guard names the case {}", case.name)));
        // A case that several variants name passes once.
        let (mut passes, mut fails) = (BTreeMap::new(), Vec::new());
        self.untried.retain(|name, variant| {
            let Some(case) = find(&variant.case) else { return true };
            passes.insert((variant.case.clone(), variant.argument.clone()), case);
            fails.push((name.clone(), variant.clone(), case));
            false
        });
        let passes = passes.iter().map(|((_, argument), case)| passes_with(case, argument).boxed());
        let fails = fails.iter().map(|(name, it, case)| fails_without(name, it, case).boxed());
        let all: Vec<BoxFuture<'_, _>> = passes.chain(fails).collect();
        let ran = stream::iter(all).buffer_unordered(AT_ONCE);
        self.wrong.extend(ran.filter_map(ready).collect::<Vec<_>>().await);
    }

    /// Asserts that each variant was tried and failed its case, and that each case was named.
    ///
    /// # Panics
    /// If not.
    pub fn end(self) {
        if copies::case_of_this_copy().is_some() {
            return;
        }
        let mut wrong = self.wrong;
        let unknown = |(name, it): (&String, &Variant)| format!("{name}: no case {:?}", it.case);
        wrong.extend(self.untried.iter().map(unknown));
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// A case may also fail by a panic. `Err` if it does not end.
async fn verdict<S: Setup>(
    case: &Case<S>,
    argument: &str,
    store: &mut S,
) -> Result<Verdict, String> {
    let ran = AssertUnwindSafe((case.run)(store, argument)).catch_unwind();
    let ran = tokio::time::timeout(LIMIT, ran).await.map_err(|_| "the case hangs")?;
    Ok(ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or(panic.downcast_ref().copied()).unwrap_or("a panic").to_owned())
    }))
}

/// Returns what went wrong.
async fn passes_with<S: Setup>(case: &Case<S>, argument: &str) -> Option<String> {
    let passed = verdict(case, argument, &mut S::start(&[]).await).await;
    let why = passed.and_then(|passed| passed).err()?;
    Some(format!("{}({argument}) fails with all guards: {why}", case.name))
}

/// Returns what went wrong.
async fn fails_without<S: Setup>(name: &str, it: &Variant, case: &Case<S>) -> Option<String> {
    let changes = it.guards.iter().map(|[name, instead]| Change::Guard(name, instead));
    let changes: Vec<_> = changes.collect();
    let verdict = match S::IN_COPIES {
        Some(test) => copies::run(test, it, &changes).await,
        None => {
            let mut broken = S::start(&changes).await;
            let verdict = verdict(case, &it.argument, &mut broken).await;
            match broken.altered() {
                0 => Err("the guard was not sent, or is shorter than its replacement".to_owned()),
                _ => verdict,
            }
        }
    };
    println!("{} {name}, by {}: {verdict:?}", it.requirement, it.case);
    let wrong = match verdict {
        Err(why) => why,
        Ok(Ok(())) => format!("SURVIVED {}", it.case),
        Ok(Err(why)) => is_no_program(&why).then(|| format!("the server refuses it: {why}"))?,
    };
    Some(format!("{name}: {wrong}"))
}

/// Whether the server refused the text: without its guard the text must still be valid.
fn is_no_program(why: &str) -> bool {
    let refusals =
        ["compiling script", "running script", "syntax error", "SQL syntax", "bind message"];
    refusals.iter().any(|words| why.contains(words))
}
