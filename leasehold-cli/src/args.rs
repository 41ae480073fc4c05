//! The arguments of the command.
//!
//! Whatever clap has to say against them becomes one line and exit code 64, see [`parse`].

use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use leasehold::LockName;

use crate::exit::Failure;

mod help;
mod values;

use self::help::{MIGRATE, RUN, epilogue};
pub use self::values::Wait;
use self::values::{Refused, check_path, duration, file, may_be_secret, name, positive, wait};

/// The environment variable that names the store where `--store` does not.
pub const STORE: &str = "LEASEHOLD_STORE";

/// Run a job under a distributed lock.
///
/// Of all that run under one name on one store, one runs at a time. The lock is a lease: it is
/// renewed while the job runs, and it ends by itself soon after its holder has crashed.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_long_help = epilogue(), max_term_width = 90)]
#[command(after_help = "'leasehold --help' tells more: stores, exit codes.")]
#[command(disable_help_subcommand = true)]
// No arguments at all are a mistake like any other, not a call for a page of help.
#[command(arg_required_else_help = false)]
// "COMMAND" is what `run` runs.
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
pub struct Cli {
    /// Where the locks are kept; without it in a SQLite file of this user's, which excludes no other
    /// user ('leasehold --help' says where)
    // Its value may hold a password: the help must not show the environment's.
    #[arg(long, global = true, value_name = "URL", env = STORE)]
    #[arg(hide_env_values = true, display_order = 90)]
    pub store: Option<String>,

    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run COMMAND while holding the lock NAME
    #[command(after_long_help = RUN)]
    Run(Run),
    /// Make the store ready, or change its settings
    ///
    /// Without options it shows the settings, and makes the store ready where it is new. They are
    /// kept in the store and hold for all its clients.
    Init(Init),
    /// Show who holds the lock NAME
    ///
    /// The exit code is 0 whether it is held or free.
    Inspect(Inspect),
    /// List the locks that are held
    List(Output),
    /// Take the lock NAME away from whoever holds it
    ///
    /// The holder is not asked. It learns of it at its next renewal, within a third of its lease, and
    /// may write until then: only a fencing token that the written resource checks stops that. The
    /// exit code is 0 whether it was held or free.
    Release(Release),
    /// Print the SQL that makes the store's tables
    Schema(Output),
    /// Connect, and print what the store guarantees and how far its clock is off
    Check(Output),
    /// Move the locks of many processes from one store to another while they run
    #[command(after_long_help = MIGRATE)]
    Migrate(Migrate),
    /// Measure stores side by side
    ///
    /// Without a STORE: those that need no server. Each store is loaded, so that one in which a lock
    /// is held is refused. In builds with the cargo feature 'compare'.
    Compare(Compare),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// How long the lock outlives a crash of its holder
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive)]
    pub lease: Duration,

    /// How long to wait for the lock: 0s for a single try, or forever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    pub wait: Wait,

    /// How long to wait for the end of a quarantine, before --wait begins to count: 0s for not at all [default: until
    /// it ends]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub quarantine_wait: Option<Duration>,

    /// Hold the lock at least for this long, even if COMMAND ends sooner
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub at_least: Duration,

    /// When the lock is lost: the time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub grace: Duration,

    /// Give COMMAND the store's URL, password and all, in LEASEHOLD_STORE; without this option it does not have
    /// that variable
    #[arg(long)]
    pub pass_store: bool,

    /// Exit code when the lock is not acquired in time
    #[arg(long, value_name = "N", default_value_t = crate::exit::NOT_ACQUIRED)]
    pub conflict_exit_code: u8,

    /// What to lock: 1 to 255 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Grant locks at once: I know that nobody holds any
    ///
    /// A store that can lose its data cannot tell being new from having lost it, locks included.
    /// Without this option such a store, when it is new, grants nothing for one longest lease.
    /// (SQLite grants at once either way.)
    #[arg(long)]
    pub first_use: bool,

    /// Hold all locks back: I have restored this store from a snapshot or a backup
    ///
    /// Locks may be held that the restored store does not know. It grants nothing until every lease
    /// that may be held is over, and all its tokens are above those that were granted. Say it before
    /// clients go on, with --longest-lease where the copy has a shorter one. Where the fencing tokens are
    /// used up, they start anew: fences refuse them that have admitted larger ones. Only etcd needs it;
    /// other stores refuse it and say why.
    #[arg(long, conflicts_with = "first_use")]
    pub restored: bool,

    /// The longest lease that any client may ask for [a new store: 30s]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub longest_lease: Option<Duration>,

    /// Whether to grant nothing for one longest lease after a loss of data [a new store: on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    pub quarantine: Option<Switch>,

    /// Set the fencing tokens back to the store's clock, where `check` says that they are used up
    ///
    /// The store then grants nothing for one longest lease. Later tokens are LOWER than those granted
    /// before: what has seen one of these, a database or a file that checks tokens, refuses all that
    /// come later until its own record of the highest token is removed. (Redis and Redlock only.)
    #[arg(long, conflicts_with = "first_use")]
    pub reset_tokens: bool,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The lock to show
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `release`.
#[derive(Debug, Args)]
pub struct Release {
    /// Required: the holder is not asked, and may still be at work
    #[arg(long, required = true)]
    pub force: bool,

    /// The lock to take away
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// What is asked
    #[arg(value_name = "status|next|back", hide_possible_values = true)]
    pub way: Way,

    /// The store that is left
    #[arg(long, value_name = "URL")]
    pub from: String,

    /// The store that is moved to
    #[arg(long, value_name = "URL")]
    pub to: String,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The stores
    #[arg(value_name = "STORE")]
    pub stores: Vec<String>,

    /// Also start, for the time of the run, whatever is installed here of Redis, five Redis for
    /// Redlock, etcd, PostgreSQL and MariaDB
    #[arg(long)]
    pub local: bool,

    /// About how long to measure, all stores together [default: 30s, with --local 2m]
    #[arg(long = "for", value_name = "DURATION", value_parser = positive)]
    pub span: Option<Duration>,

    /// Write the report as an HTML page, too
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub page: Option<PathBuf>,

    /// Show what held under faults, too: what `conformance-tests --json FILE` wrote
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub proof: Option<PathBuf>,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// What is asked of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Who is in which phase.
    Status,
    /// The next step.
    Next,
    /// The next step back.
    Back,
}

/// How to print an answer.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// What the arguments come to.
#[derive(Debug)]
pub enum Parsed {
    /// Something to do.
    Cli(Box<Cli>),
    /// Help or the version, to be printed on stdout; exit code 0.
    Text(clap::Error),
}

/// Parses the arguments, of which the first is the command's own name.
///
/// # Errors
///
/// A failure with exit code 64, whose message is clap's in one line.
pub fn parse<I>(args: I) -> Result<Parsed, Failure>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // Their stores are named otherwise; there it is only known so that it is refused in words.
    let hidden = |action: clap::Command| {
        action.arg(clap::Arg::new("store").long("store").value_name("URL").hide(true))
    };
    let command = Cli::command();
    let command = command.mut_subcommand("migrate", hidden).mut_subcommand("compare", hidden);
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let matches = command.try_get_matches_from(&args);
    let named = matches
        .as_ref()
        .is_ok_and(|matches| matches.value_source("store") == Some(ValueSource::CommandLine));
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        // That of the environment is for the other actions.
        Ok(Cli { action: Action::Migrate(_), .. }) if named => Err(Failure::usage(
            "--store is not for migrate; its stores are those of --from and --to",
        )),
        Ok(Cli { action: Action::Compare(_), .. }) if named => Err(Failure::usage(
            "--store is not for compare; the stores are named behind it, without an option",
        )),
        Ok(cli) => {
            if let Action::Run(Run { command, .. }) = &cli.action
                && let Some(program) = command.first()
            {
                check_path(program, "COMMAND").map_err(Failure::usage)?;
            }
            Ok(Parsed::Cli(Box::new(cli)))
        }
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Parsed::Text(text))
        }
        // clap would repeat the whole value, of whatever length.
        Err(error) => match error.source().and_then(|source| source.downcast_ref::<Refused>()) {
            Some(Refused(why)) => Err(Failure::usage(why)),
            None => Err(Failure::usage(sentence(&without_secrets(error.to_string(), &args)))),
        },
    }
}

/// clap's message without what may be the URL of a store, and its password: it is put among these arguments in the
/// wrong place.
fn without_secrets(mut page: String, args: &[OsString]) -> String {
    for arg in args {
        let arg = arg.to_string_lossy();
        let value = arg.split_once('=').map_or(&*arg, |(_, value)| value);
        for text in [&*arg, value] {
            if may_be_secret(text) {
                page = page.replace(text, "***");
            }
        }
    }
    page
}

/// clap's message, a page of paragraphs, as one line: what is wrong, its tips, and where help is.
fn sentence(page: &str) -> String {
    let mut parts = Vec::new();
    for paragraph in page.split("\n\n").map(str::trim) {
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") {
            continue;
        }
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        parts.push(words.trim_start_matches("error: ").replace(" tip: ", "; tip: "));
    }
    parts.retain(|part| !part.is_empty());
    parts.push("see 'leasehold --help'".to_owned());
    parts.join("; ")
}

#[cfg(test)]
mod tests;
