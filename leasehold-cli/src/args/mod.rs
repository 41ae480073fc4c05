//! The arguments of the command. [`parse`] turns each message of clap into one line and exit code
//! 64.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use leasehold::LockName;

use crate::exit::Failure;

mod hand_over;
mod help;
mod refusal;
mod run_and_hold;
mod values;

pub use self::hand_over::{Acquire, Release, Renew};
use self::help::{ACQUIRE, HOLD, MIGRATE, RELEASE, RENEW, epilogue};
pub use self::refusal::refusal;
pub use self::run_and_hold::{Hold, IfUnknown, Lock, Run};
pub use self::values::{Wait, file, positive};
use self::values::{check_path, interval, name};

/// The environment variable that names the store where `--store` does not.
pub const STORE: &str = "LEASEHOLD_STORE";

/// Run a job under a distributed lock.
///
/// Jobs with one name on one store run one at a time. The lock is a lease: leasehold renews it
/// while the job runs, and it ends by itself soon after its holder has crashed.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_long_help = epilogue(), max_term_width = 90)]
#[command(after_help = "'leasehold --help' tells more: stores, exit codes.")]
#[command(disable_help_subcommand = true)]
// No arguments at all are a mistake like any other, not a call for a page of help.
#[command(arg_required_else_help = false)]
// `run` runs "COMMAND".
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
pub struct Cli {
    /// The store that keeps the locks [default: a SQLite file of this user, which does not exclude
    /// other users; see 'leasehold --help']
    // Its value may hold a password: the help must not show the environment's.
    #[arg(long, global = true, value_name = "URL", env = STORE)]
    #[arg(hide_env_values = true, display_order = 90)]
    pub store: Option<String>,

    /// Read the store's URL from FILE: other users of this machine can read a command line
    #[arg(long, global = true, value_name = "FILE", value_parser = file(), display_order = 91)]
    pub store_file: Option<PathBuf>,

    /// How to write warnings and failures on stderr
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(display_order = 92)]
    pub log_format: LogFormat,

    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run COMMAND while holding the lock NAME
    #[command(after_long_help = help::run())]
    Run(Run),
    /// Hold the lock NAME for a script until stdin ends
    #[command(after_long_help = HOLD)]
    Hold(Hold),
    /// Acquire the lock NAME, and keep it after this command, for a later one
    #[command(after_long_help = ACQUIRE)]
    Acquire(Acquire),
    /// Renew a lock that acquire has written to a file
    #[command(after_long_help = RENEW)]
    Renew(Renew),
    /// Make the store ready, or change its settings
    ///
    /// Without options it shows the settings, and makes a new store ready. The store keeps the
    /// settings, and they hold for all its clients.
    Init(Init),
    /// Show who holds the lock NAME
    ///
    /// The exit code is 0, whether the lock is held or free.
    Inspect(Inspect),
    /// Show the record of NAME: its last run, if it runs with --once-per
    ///
    /// The exit code is 0, whether there is a record or not. Times are those of the store's clock.
    Record(Record),
    /// List the locks that are held
    List(List),
    /// Take the lock NAME away from its holder, or release one of acquire
    ///
    /// The holder is not asked. It learns of the loss at its next renewal, within a third of its
    /// lease, and may write until then. Only a resource that checks fencing tokens refuses such a
    /// write. The exit code is 0, whether the lock was held or free; with --token, 75 if that grant
    /// does not hold the lock.
    #[command(after_long_help = RELEASE)]
    Release(Release),
    /// Print the SQL that makes the store's tables
    Schema(Output),
    /// Connect, and print what the store guarantees, how fast it answers and how far its clock is
    /// off
    ///
    /// The exit code is 0 only if the store promises exclusion, and 78 if it does not.
    Check(Output),
    /// Move the locks of many processes from one store to another while they run
    #[command(after_long_help = MIGRATE)]
    Migrate(Migrate),
    /// Print a script that completes this command's arguments in SHELL
    ///
    /// For bash, for example: leasehold completions bash >
    /// ~/.local/share/bash-completion/completions/leasehold
    Completions(Completions),
    /// Print the manual page of leasehold, or of one ACTION
    ///
    /// For example: leasehold man run > leasehold-run.1
    Man(Man),
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Grant locks at once: I know that nobody holds any
    ///
    /// A store that can lose its data cannot know whether it is new or has lost its locks. So
    /// without this option, such a new store grants nothing for one longest lease. (SQLite grants
    /// at once either way, and one plain Redis does if it has been up for that long.)
    #[arg(long)]
    pub first_use: bool,

    /// Hold all locks back: I have restored this store from a snapshot or a backup
    ///
    /// Somebody may hold a lock that the restored store does not know. With this option the store
    /// grants nothing until every lease that may be held is over, and later tokens are above all
    /// earlier ones. Use it before clients continue; add --longest-lease if the copy has a shorter
    /// one. If the fencing tokens are used up, they start anew, and a fence that has admitted
    /// larger ones refuses them. Only etcd needs this option; other stores refuse it and say why.
    #[arg(long, conflicts_with = "first_use")]
    pub restored: bool,

    /// The longest lease that any client may ask for [a new store: 30s]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub longest_lease: Option<Duration>,

    /// Whether to grant nothing for one longest lease after a loss of data [a new store: on]
    #[arg(long, value_name = "on|off")]
    pub quarantine: Option<Switch>,

    /// Set the fencing tokens back to the store's clock, if `check` says that they are used up
    ///
    /// The store then grants nothing for one longest lease. Later tokens are LOWER than earlier
    /// ones. A database or file that checks tokens, and has seen an earlier one, refuses all later
    /// ones until its own record of the highest token is removed. (Only Redis, Redlock and
    /// PostgreSQL.)
    #[arg(long, conflicts_with = "first_use")]
    pub reset_tokens: bool,

    /// Take the records for complete: I know that none was lost that still counts
    ///
    /// After a loss of data a store does not know which records it has lost, so reads of records
    /// say that they may be incomplete. Use this for a new store, too, if it can lose its data.
    #[arg(long)]
    pub records_complete: bool,

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

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// The name whose record to show
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct List {
    /// Show them again and again, with their ages and waiters, every INTERVAL [default: 1s]
    ///
    /// On a terminal each list replaces the last one; Ctrl-C or q ends it. Otherwise each list is
    /// printed after the last one; with --json, each is one line.
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "1s")]
    #[arg(value_parser = interval)]
    pub watch: Option<Duration>,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// What to show
    #[arg(value_name = "status|next|back")]
    pub action: MigrateAction,

    /// The old store
    #[arg(long, value_name = "URL", required_unless_present = "from_file")]
    pub from: Option<String>,

    /// The new store
    #[arg(long, value_name = "URL", required_unless_present = "to_file")]
    pub to: Option<String>,

    /// Read the old store's URL from FILE
    #[arg(long, value_name = "FILE", value_parser = file(), conflicts_with = "from")]
    pub from_file: Option<PathBuf>,

    /// Read the new store's URL from FILE
    #[arg(long, value_name = "FILE", value_parser = file(), conflicts_with = "to")]
    pub to_file: Option<PathBuf>,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The action, such as run
    #[arg(value_name = "ACTION")]
    pub action: Option<String>,
}

/// The views of `migrate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MigrateAction {
    /// The phase of each client.
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

/// How to write on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines to read.
    Text,
    /// A JSON object a line.
    Json,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// The meaning of the arguments.
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
/// A failure with exit code 64 and clap's message in one line.
pub fn parse<I>(args: I) -> Result<Parsed, Failure>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // These actions have other options for their stores, or use no store. They know the two options
    // only to refuse them with a clear message.
    let hidden = |action: clap::Command| {
        action
            .arg(clap::Arg::new("store").long("store").value_name("URL").hide(true))
            .arg(clap::Arg::new("store_file").long("store-file").value_name("FILE").hide(true))
    };
    let mut command = Cli::command();
    for action in ["migrate", "completions", "man"] {
        command = command.mut_subcommand(action, hidden);
    }
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let matches = command.try_get_matches_from(&args);
    // Only options count here. A store in the environment is ignored by actions that do not use it.
    let named = |id: &str| {
        let source = matches.as_ref().ok().and_then(|matches| matches.value_source(id));
        source == Some(ValueSource::CommandLine)
    };
    let (store, file) = (named("store"), named("store_file"));
    let mut cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(Parsed::Text(text));
        }
        Err(error) => return Err(refusal(&error, &args, "leasehold")),
    };
    if store || file {
        let option = if store { "--store" } else { "--store-file" };
        match cli.action {
            Action::Migrate(_) => {
                return Err(Failure::usage(format_args!(
                    "{option} must not be used with migrate; name the stores with --from and --to"
                )));
            }
            Action::Completions(_) | Action::Man(_) => {
                return Err(Failure::usage(format_args!(
                    "{option} must not be used with completions and man; they use no store"
                )));
            }
            _ if store && file => {
                return Err(Failure::usage(
                    "--store and --store-file must not be used together; name the store once",
                ));
            }
            _ => {}
        }
    }
    if file {
        cli.store = None;
    }
    if let Action::Run(Run { lock, .. }) | Action::Hold(Hold { lock }) = &cli.action {
        lock.check().map_err(Failure::usage)?;
    }
    if let Action::Run(run) = &cli.action {
        run.check().map_err(Failure::usage)?;
        if let Some(program) = run.command.first() {
            check_path(program, "COMMAND").map_err(Failure::usage)?;
        }
    }
    Ok(Parsed::Cli(Box::new(cli)))
}

#[cfg(test)]
mod tests;
