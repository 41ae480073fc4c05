//! The processes below one, read from `/proc`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

/// A process at the moment when `/proc` was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::supervise::sys) struct Process {
    pid: Pid,
    pub(in crate::supervise::sys) parent: Option<Pid>,
    /// Its process group; `None` if it began outside our process namespace, where its number has no
    /// meaning for us.
    pub(in crate::supervise::sys) group: Option<Pid>,
    /// Its session, likewise.
    pub(in crate::supervise::sys) session: Option<Pid>,
    /// When it started, in the kernel's ticks. Together with the id this identifies the process.
    born: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    Stopped,
    Dead,
}

impl Process {
    /// Sends it a signal, unless another process has its id now. A failure is ignored: the process
    /// is gone, or it belongs to another user and nothing can be done.
    pub(in crate::supervise::sys) fn signal(&self, signal: Signal) {
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            // The descriptor refers to one process from here on. Check that it is this one.
            Ok(fd) if read(self.pid).is_some_and(|now| now.born == self.born) => {
                let _ = pidfd_send_signal(fd, signal);
            }
            Ok(_) | Err(Errno::SRCH) => {}
            // A kernel before 5.3, or a sandbox that forbids it.
            Err(_) => drop(kill_process(self.pid, signal)),
        }
    }
}

/// The living processes below `root`, in no particular order. While a process or a thread ends, its
/// children may be missing. Then the death of a child of `root` follows.
pub(in crate::supervise::sys) fn below(root: Pid) -> Vec<Process> {
    select(root, family(root))
}

/// All living processes below `root`, without children that are older than `child`, and without the
/// processes below those. `root` had them before an exec.
pub(in crate::supervise::sys) fn below_since(root: Pid, child: &Process) -> Vec<Process> {
    let below = |candidates| select(root, without_older(root, child.born, candidates));
    let found = below(family(root));
    // The search from parent to child may miss the children of a process that ends.
    if found.is_empty() { below(all()) } else { found }
}

fn without_older(root: Pid, born: u64, mut all: Vec<Process>) -> Vec<Process> {
    all.retain(|each| each.parent != Some(root) || each.born >= born);
    all
}

/// Whether a member of the group is stopped.
pub(in crate::supervise::sys) fn any_stopped(group: Pid) -> bool {
    all().iter().any(|each| each.group == Some(group) && each.state == State::Stopped)
}

/// The processes below `root`, read from parent to child: on a busy machine a look at every process
/// of the machine could take longer than is left before the next holder begins.
fn family(root: Pid) -> Vec<Process> {
    // Some kernels do not list children.
    if !Path::new("/proc/thread-self/children").exists() {
        return all();
    }
    if !is_ours() {
        return Vec::new();
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(parent) = open.pop() {
        let children = children(parent);
        found.extend(children.iter().copied().filter_map(read));
        open.extend(children);
    }
    found
}

/// The children of all threads of a process.
fn children(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    let lists = threads
        .into_iter()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let ids = |list: String| list.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    lists.flat_map::<Vec<i32>, _>(ids).filter_map(positive).collect()
}

/// All processes of the machine.
fn all() -> Vec<Process> {
    if !is_ours() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|raw| read(positive(raw)?))
        .collect()
}

/// Whether `/proc` has the ids of our process namespace. Those of another one are other processes:
/// no list is better than a wrong one.
fn is_ours() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.as_deref().and_then(|link| link.to_str()) == Some(&getpid().as_raw_nonzero().to_string())
}

/// The living processes of `all` that are below `root`, also through dead ones.
fn select(root: Pid, mut all: Vec<Process>) -> Vec<Process> {
    let mut known = HashSet::from([root]);
    let mut found = Vec::new();
    loop {
        let (below, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|each| each.parent.is_some_and(|pid| known.contains(&pid)));
        if below.is_empty() {
            found.retain(|each: &Process| each.state != State::Dead);
            return found;
        }
        known.extend(below.iter().map(|each| each.pid));
        found.extend(below);
        all = rest;
    }
}

/// This process. Its group and session are read from here, too, because the calls of our library
/// assume that both have a number in our process namespace.
pub(in crate::supervise::sys) fn own() -> Option<Process> {
    read(getpid())
}

/// One process, if it is there.
pub(in crate::supervise::sys) fn read(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// Parses `/proc/<pid>/stat`. The process chooses the name in the second field, which may contain
/// spaces and parentheses. So the other fields are counted from the last parenthesis.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let mut id = || Some(positive(fields.next()?.parse().ok()?));
    let (parent, group, session) = (id()?, id()?, id()?);
    // Fields 20 and 22 of the line.
    let threads: u32 = fields.nth(13)?.parse().ok()?;
    let born = fields.nth(1)?.parse().ok()?;
    let state = match state {
        // If only its first thread has ended, the other threads go on.
        "Z" | "X" if threads <= 1 => State::Dead,
        "T" => State::Stopped,
        _ => State::Alive,
    };
    Some(Process { pid: positive(pid.parse().ok()?)?, parent, group, session, born, state })
}

/// A process id. The kernel shows 0 for one without a number here, and -1 for the group and the
/// session of a process that is just being removed.
fn positive(id: i32) -> Option<Pid> {
    if id > 0 { Pid::from_raw(id) } else { None }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use rustix::process::getppid;

    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[test]
    fn a_name_cannot_forge_the_fields() {
        let line = "42 (a) R 1 1 (b) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0";
        let process = parse(line).unwrap();
        assert_eq!(process.pid, pid(42));
        assert_eq!(process.parent, Some(pid(7)));
        assert_eq!(process.group, Some(pid(8)));
        assert_eq!(process.session, Some(pid(9)));
        assert_eq!(process.born, 12345);
        assert_eq!(process.state, State::Alive);
    }

    #[test]
    fn a_process_lives_as_long_as_any_of_its_threads() {
        for (letter, threads, state) in [
            ("Z", 1, State::Dead),
            ("Z", 2, State::Alive),
            ("X", 0, State::Dead),
            ("T", 1, State::Stopped),
            ("S", 3, State::Alive),
        ] {
            let line =
                format!("42 (a) {letter} 7 8 9 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 12345 0");
            let process = parse(&line).unwrap();
            assert_eq!((process.state, process.born), (state, 12345), "{line}");
        }
    }

    #[test]
    fn a_process_that_is_being_removed_has_no_group() {
        let line = "42 (a) X 0 -1 -1 0 -1 0 1 2 3 4 5 6 7 8 20 0 0 0 12345 0";
        let process = parse(line).unwrap();
        assert_eq!((process.parent, process.group, process.session), (None, None, None));
    }

    #[test]
    fn reads_this_very_process() {
        let process = own().unwrap();
        assert_eq!(process.pid, getpid());
        assert_eq!(process.parent, getppid());
    }

    /// At a deadline there is no time to look at all processes of a busy machine.
    #[test]
    fn looks_only_at_the_processes_below() {
        let script = "sleep 1000 & echo $!; wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper = pid(line.trim().parse().unwrap());
        let found: Vec<_> = family(getpid()).iter().map(|each| each.pid).collect();
        let _ = kill_process(sleeper, Signal::KILL);
        shell.wait().unwrap();
        assert!(found.contains(&sleeper) && found.contains(&pid(shell.id() as i32)), "{found:?}");
        assert!(!found.contains(&getpid()) && !found.contains(&getppid().unwrap()), "{found:?}");
    }

    #[test]
    fn a_group_from_outside_the_namespace_has_no_number() {
        let line = "42 (a) R 7 0 0 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0";
        let process = parse(line).unwrap();
        assert_eq!((process.group, process.session), (None, None));
        assert_eq!(process.born, 12345);
    }

    #[test]
    fn finds_the_living_through_the_dead() {
        let each = |id, parent, state| Process {
            pid: pid(id),
            parent: Pid::from_raw(parent),
            group: Some(pid(id)),
            session: None,
            born: 0,
            state,
        };
        let all = vec![
            each(5, 4, State::Alive),
            each(1, 0, State::Alive),
            each(4, 3, State::Dead),
            each(3, 2, State::Alive),
            each(2, 1, State::Alive),
            each(9, 1, State::Alive),
        ];
        let mut found: Vec<_> =
            select(pid(2), all).iter().map(|each| each.pid.as_raw_nonzero().get()).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 5]);
    }

    #[test]
    fn older_children_are_spared_with_all_processes_below_them() {
        let each = |id, parent, born| Process {
            pid: pid(id),
            parent: Pid::from_raw(parent),
            group: None,
            session: None,
            born,
            state: State::Alive,
        };
        // The job reaper is 5; 3 was there before, and 6 is a child that 3 has had since.
        let all = vec![each(3, 2, 10), each(5, 2, 20), each(6, 3, 30), each(7, 5, 30)];
        let all = [all, vec![each(8, 2, 40)]].concat();
        let found = select(pid(2), without_older(pid(2), 20, all));
        let mut found: Vec<_> = found.iter().map(|each| each.pid.as_raw_nonzero().get()).collect();
        found.sort_unstable();
        assert_eq!(found, [5, 7, 8]);
    }
}
