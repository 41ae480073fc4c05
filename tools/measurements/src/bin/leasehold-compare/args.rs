//! The arguments of the command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use leasehold_cli::args::{file, positive};

/// Measure stores side by side.
///
/// Without a STORE it measures those that need no server. The measurement loads each store, so a
/// store with a held lock is refused.
#[derive(Debug, Parser)]
#[command(name = "leasehold-compare", version, max_term_width = 90)]
pub(crate) struct Compare {
    /// The URLs of the stores
    #[arg(value_name = "STORE")]
    pub(crate) stores: Vec<String>,

    /// Also start the servers that are installed here, for the time of the run: Redis, five Redis
    /// for Redlock, etcd, ZooKeeper, PostgreSQL and MariaDB
    #[arg(long)]
    pub(crate) local: bool,

    /// About how long to measure all stores together [default: 30s, with --local 2m]
    #[arg(long = "for", value_name = "DURATION", value_parser = positive)]
    pub(crate) span: Option<Duration>,

    /// Also write the report as an HTML page
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) page: Option<PathBuf>,

    /// Also show what held under faults, from a file that `verification --json FILE` wrote
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) proof: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
