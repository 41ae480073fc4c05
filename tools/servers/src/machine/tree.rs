//! The processes of a server, read from `/proc`. PostgreSQL puts each worker into a session of its
//! own, so no process group covers them.

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Doing as _, KitError, Result};

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let target = target.ok_or_else(|| KitError::Unexpected(format!("{pid} is no process id")))?;
    match kill_process(target, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        done => done.doing(|| format!("signal process {pid}")),
    }
}

/// The state letter and the parent's id, from `/proc/<pid>/stat`; `None` once the process is gone.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process exists and is not only a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !is_end(state))
}

/// Whether a process is stopped, or gone, so that it does nothing.
pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_none_or(|(state, _)| matches!(state, 'T' | 't') || is_end(state))
}

fn is_end(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

/// The children of a process, theirs, and so on, without those that have ended.
pub(crate) fn descendants(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").doing(|| "read /proc".to_owned())?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if let Some((pid, (state, parent))) = pid.and_then(|pid| Some((pid, stat(pid)?)))
            && !is_end(state)
        {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    Ok(found)
}
