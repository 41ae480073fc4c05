//! Finds the programs that the kit needs, and runs those that end by themselves.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read as _, Seek as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    error::{Doing as _, KitError, Result},
    machine::wait::until,
};

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

/// Runs a command to its end without blocking the runtime; returns its standard output. If the
/// caller goes away, the command is killed.
///
/// # Errors
///
/// [`KitError::Command`] with what it wrote, unless it ends with success; [`KitError::TimedOut`]
/// after a minute.
pub async fn run(mut command: Command) -> Result<String> {
    // Files rather than pipes: they never fill up, and need nobody to read them meanwhile.
    let file = || tempfile::tempfile().doing(|| "make a temporary file".to_owned());
    let (mut stdout, mut stderr) = (file()?, file()?);
    let shared = |file: &File| file.try_clone().doing(|| "share a temporary file".to_owned());
    command.stdin(Stdio::null()).stdout(shared(&stdout)?).stderr(shared(&stderr)?);
    // Only the program and its first argument: later ones may hold a password.
    let name = [Some(command.get_program()), command.get_args().next()]
        .into_iter()
        .flatten()
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    let mut child = KilledOnDrop(crate::machine::session::spawn(command)?);
    let status = until(&format!("{name} to end"), COMMAND_WITHIN, || {
        let ended = child.0.try_wait().doing(|| format!("wait for {name}"));
        async move { ended }
    })
    .await?;

    let mut output = read(&mut stdout)?;
    if status.success() {
        return Ok(output);
    }
    output.push_str(&read(&mut stderr)?);
    Err(KitError::Command { command: name, status, output })
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .doing(|| "read a command's output".to_owned())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Both do nothing to a child that has been reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
