//! Finding the programs that the kit runs, and running those that end by themselves.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use super::error::{Doing as _, KitError, Result};

/// Servers live in sbin, which is not on every user's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// How long `initdb`, `etcdctl` and their like may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);

/// Finds a program on the PATH or in an sbin folder.
///
/// # Errors
///
/// [`KitError::MissingProgram`] with the Debian package that brings it.
pub fn find(program: &str, package: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| KitError::MissingProgram { program: program.to_owned(), package })
}

/// Finds a program of PostgreSQL: Debian keeps those of each version in a folder off the PATH, and
/// the newest is taken.
///
/// # Errors
///
/// [`KitError::MissingProgram`] where there is none.
pub fn find_postgres(program: &str) -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let path = entry.path().join("bin").join(program);
            path.is_file().then_some((version, path))
        })
        .max_by_key(|(version, _)| *version)
        .map_or_else(|| find(program, "postgresql"), |(_, path)| Ok(path))
}

/// Runs a command to its end without blocking the runtime; returns its standard output.
///
/// # Errors
///
/// [`KitError::Command`] with what it wrote, unless it ends with success; [`KitError::TimedOut`]
/// after a minute.
pub async fn run(mut command: Command) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Only the program and its first argument: later ones may hold a password.
    let name = [Some(command.get_program()), command.get_args().next()]
        .into_iter()
        .flatten()
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    let child = super::session::spawn(command)?;
    let pid = child.id();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = match tokio::time::timeout(COMMAND_WITHIN, ended).await {
        Ok(joined) => joined
            .map_err(|e| KitError::Unexpected(format!("waiting for {name}: {e}")))?
            .doing(|| format!("wait for {name}"))?,
        Err(_) => {
            // It is not reaped before the blocking thread has seen its end, so the id is its own.
            super::tree::signal(pid, rustix::process::Signal::KILL)?;
            return Err(KitError::TimedOut {
                what: format!("{name} to end"),
                waited: COMMAND_WITHIN,
                log: "(none)".to_owned(),
            });
        }
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let output_text = stdout + &String::from_utf8_lossy(&output.stderr);
    Err(KitError::Command { command: name, status: output.status, output: output_text })
}
