//! The command line of the proof.

use std::{path::PathBuf, time::Duration};

use crate::proof::plan::fault::Fault;
use crate::proof::plan::profile::Profile;
use crate::proof::plan::system_under_test::SystemUnderTest;

pub(crate) const USAGE: &str = "\
Tries stores under faults, and prints which guarantees held.

usage: cargo run -p verification -- (--store STORE… | --all | --list) [options]

  --store STORE     a kind of store, whose servers this program starts; or the URL of a store of
                    yours, in which this program locks names of its own, and kills and pauses its
                    own clients; may be given more than once
  --all             every kind of store
  --list            prints the kinds of stores and the faults of each
  --fault FAULT     only this fault; may be given more than once
  --profile NAME    quick (default): seconds per fault, without the slow faults; soak: every fault,
                    again and again, with other seeds
  --for DURATION    how long the soak of a store lasts; default 30m
  --seed N          the first seed; default: a random one, which is printed
  --json FILE       also writes the results to the file
  --page FILE…      runs nothing; prints a summary of results that --json wrote

The exit code is 0 if every promise held, and if every promise that is withheld under a fault was seen
to break where it must; 1 if not; 2 if the command line is wrong.";

/// The action that the command line asks for.
#[derive(Debug)]
pub(crate) enum Wanted {
    Run(Args),
    List,
    Help,
    Page(Vec<PathBuf>),
}

/// The stores and faults to try.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) stores: Vec<SystemUnderTest>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) profile: Profile,
    pub(crate) seed: Option<u64>,
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    /// Every fault of these stores, once.
    pub(crate) fn quick(stores: Vec<SystemUnderTest>) -> Self {
        Self { stores, faults: Vec::new(), profile: Profile::QUICK, seed: None, json: None }
    }
}

impl std::fmt::Debug for SystemUnderTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemUnderTest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads the command line.
///
/// # Errors
/// In words: what is wrong, and what is allowed.
pub(crate) fn parse(
    args: impl IntoIterator<Item = String>,
    subjects: &[SystemUnderTest],
) -> Result<Wanted, String> {
    let mut parsed = Args::quick(Vec::new());
    let mut lasts = None;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--store" => parsed.stores.push(store(&value()?, subjects)?),
            "--all" => parsed.stores = subjects.to_vec(),
            "--list" => return Ok(Wanted::List),
            "--page" => return Ok(Wanted::Page(args.map(PathBuf::from).collect())),
            "--help" | "-h" => return Ok(Wanted::Help),
            "--fault" => parsed.faults.push(fault(&value()?)?),
            "--profile" => parsed.profile = profile(&value()?)?,
            "--for" => {
                let text = value()?;
                let span = humantime::parse_duration(&text);
                lasts =
                    Some(span.map_err(|_| format!("--for {text} must be a duration such as 30m"))?);
            }
            "--seed" => {
                let text = value()?;
                let seed = text.parse();
                parsed.seed = Some(seed.map_err(|_| format!("--seed {text} must be a number"))?);
            }
            "--json" => parsed.json = Some(value()?.into()),
            other => return Err(format!("{other} is not understood")),
        }
    }
    limit(&mut parsed.profile, lasts)?;
    if parsed.stores.is_empty() {
        return Err("no store is named".to_owned());
    }
    Ok(Wanted::Run(parsed))
}

fn limit(profile: &mut Profile, lasts: Option<Duration>) -> Result<(), String> {
    match (&mut profile.lasts, lasts) {
        (None, Some(_)) => Err("--for is for --profile soak".to_owned()),
        (Some(span), Some(lasts)) => {
            *span = lasts;
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

fn store(text: &str, subjects: &[SystemUnderTest]) -> Result<SystemUnderTest, String> {
    if let Some(subject) = subjects.iter().find(|subject| subject.name == text) {
        return Ok(subject.clone());
    }
    if text.contains(':') {
        return Ok(SystemUnderTest::at(text));
    }
    let names: Vec<_> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    Err(format!("--store {text} must be a URL or one of {}", names.join(", ")))
}

fn fault(text: &str) -> Result<Fault, String> {
    let same = |fault: &&Fault| fault.name() == text || fault.name().replace(' ', "-") == text;
    let names: Vec<_> = Fault::ALL.iter().map(|fault| fault.name().replace(' ', "-")).collect();
    let found = Fault::ALL.iter().find(same).copied();
    found.ok_or_else(|| format!("--fault {text} must be one of {}", names.join(", ")))
}

fn profile(text: &str) -> Result<Profile, String> {
    let known = [Profile::QUICK, Profile::SOAK];
    let found = known.into_iter().find(|profile| profile.name == text);
    found.ok_or_else(|| format!("--profile {text} must be quick or soak"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Args, String> {
        match parse(line.split_whitespace().map(str::to_owned), &[SystemUnderTest::at("kind:")])? {
            Wanted::Run(args) => Ok(args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_is_not_allowed_is_refused_with_what_is() {
        for (line, word) in [
            ("", "no store"),
            ("--store mongo", "kind"),
            ("--store kind --fault fire", "client-killed"),
            ("--store kind --profile long", "soak"),
            ("--store kind --for 1m", "soak"),
            ("--store kind --seed x", "number"),
            ("--store", "value"),
            ("--store kind --help", "Help"),
            ("--list", "List"),
            ("--stor kind", "not understood"),
        ] {
            let error = of(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn a_line_is_understood() {
        let args =
            of("--store kind --store redis://h --fault client-paused --profile soak --for 2h")
                .unwrap();
        assert_eq!(args.stores.len(), 2);
        assert_eq!(args.faults, [Fault::ClientPaused]);
        assert_eq!(args.profile.lasts, Some(Duration::from_secs(7200)));
    }
}
