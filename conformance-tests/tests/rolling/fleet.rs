//! The fleet: which process is in which phase, who is moved and who is killed.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use leasehold::migration::{Direction, Fleet, Phase, Step};
use lock_core::{Env as _, SystemEnv};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::{child::Part, judge::judge};
use crate::pairs::{self, Kind};

const PROCESSES: usize = 12;
/// How many locks each has held before the next is moved.
const HELD: u32 = 1;
/// The record of a process that was killed lives for so long, and its locks at most.
const LONGEST: Duration = Duration::from_secs(2);
/// No step of a sound build takes so long, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    phase: Phase,
}

/// What has happened, for people and for the assertion that it did.
#[derive(Default)]
struct Told {
    started: u32,
    killed: u32,
    refused: u32,
    stale: u32,
}

/// A fleet between two stores.
struct Rolling<'a> {
    stores: [&'a str; 2],
    folder: &'a Path,
    told: Told,
}

/// Moves a fleet forward and back; panics if anything is wrong.
pub(crate) async fn roll(from: Kind, to: Kind) -> String {
    let began = Instant::now();
    let (from, to) = (from.start(Some(LONGEST)).await, to.start(Some(LONGEST)).await);
    let (from, to) = (from.expect("a store"), to.expect("a store"));
    let folder = tempfile::tempdir().unwrap();
    let stores = [from.0.as_str(), to.0.as_str()];
    let mut rolling = Rolling { stores, folder: folder.path(), told: Told::default() };
    let mut fleet = Vec::new();
    for _ in 0..PROCESSES {
        let started = rolling.start(Phase::Old).await;
        fleet.push(started);
    }
    for phase in [Phase::Both, Phase::New, Phase::Both, Phase::Old] {
        for at in 0..PROCESSES {
            // One in three is killed before it is moved, and now and then another beside it.
            rolling.end(&mut fleet[at], SystemEnv.random().is_multiple_of(3)).await;
            fleet[at] = rolling.start(phase).await;
            if SystemEnv.random().is_multiple_of(6) {
                let other = (SystemEnv.random() % PROCESSES as u128) as usize;
                let same = fleet[other].phase;
                rolling.end(&mut fleet[other], true).await;
                fleet[other] = rolling.start(same).await;
            }
        }
        rolling.all_are_in(phase).await;
    }
    for process in &mut fleet {
        rolling.end(process, false).await;
    }
    let Told { started, killed, refused, stale } = rolling.told;
    let tried = judge(folder.path(), started);
    assert!(killed >= 1, "nobody was killed");
    assert!(tried.grants as u32 >= HELD * PROCESSES as u32 * 5, "{} grants", tried.grants);
    format!(
        "{started} processes, {killed} killed, {refused} entries refused; {} grants, {} writes, \
         {stale} refused as stale, in {:.1} s",
        tried.grants,
        tried.writes,
        began.elapsed().as_secs_f64()
    )
}

impl Rolling<'_> {
    /// Starts a process and waits until it has worked.
    async fn start(&mut self, phase: Phase) -> Process {
        let url = pairs::url(phase, self.stores[0], self.stores[1]);
        let part = Part { number: self.told.started, url, folder: self.folder.to_owned() };
        self.told.started += 1;
        let (variable, value) = part.variable();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(variable, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut process = Process { child, lines, phase };
        let mut held = 0;
        while held < HELD {
            let line = timeout(LIMIT, process.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("a process in phase {phase} hangs"));
            match line.unwrap().expect("a process ended by itself").as_str() {
                "held" => held += 1,
                "refused" => self.told.refused += 1,
                "stale" => self.told.stale += 1,
                _ => {}
            }
        }
        process
    }

    /// Ends a process, by its own will or not.
    async fn end(&mut self, process: &mut Process, kill: bool) {
        if kill {
            process.child.start_kill().expect("a kill");
        } else {
            drop(process.child.stdin.take());
        }
        while let Ok(Some(line)) = process.lines.next_line().await {
            self.told.stale += u32::from(line == "stale");
        }
        let status = timeout(LIMIT, process.child.wait()).await.expect("an end in time").unwrap();
        let killed = status.signal() == Some(rustix::process::Signal::KILL.as_raw());
        assert!(if kill { killed } else { status.success() }, "{status}");
        self.told.killed += u32::from(killed);
    }

    /// The records show all in `phase`, when those of the dead have run out.
    async fn all_are_in(&self, phase: Phase) {
        let [old, new] = [self.stores[0], self.stores[1]].map(leasehold::open);
        let (old, new) = (old.await.unwrap(), new.await.unwrap());
        let begun = Instant::now();
        loop {
            let fleet = Fleet::survey(&*old, &*new).await.unwrap();
            let steps = [Direction::Forward, Direction::Back].map(|way| fleet.next(way).ok());
            if fleet.members.len() == PROCESSES
                && fleet.members.iter().all(|member| member.phase == Some(phase))
            {
                let expected = match phase {
                    Phase::Old => [Some(Step::Enter(Phase::Both)), Some(Step::Leave)],
                    Phase::Both => [Some(Step::Enter(Phase::New)), Some(Step::Enter(Phase::Old))],
                    Phase::New => [Some(Step::Leave), Some(Step::Enter(Phase::Both))],
                };
                assert_eq!(steps, expected);
                break;
            }
            assert!(begun.elapsed() < LIMIT, "not all are in phase {phase}: {fleet:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        old.close().await;
        new.close().await;
    }
}
