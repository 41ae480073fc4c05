//! The fleet: which process is in which phase, who is moved and who is killed.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    time::{Duration, Instant},
};

use conformance_tests::ChildProcess;
use leasehold::migration::{Direction, Fleet, Phase, Step};
use lock_core::{Env as _, SystemEnv};
use tokio::time::timeout;

use crate::{
    child::{self, ChildSpec},
    judge::judge,
    report::Rolled,
};
use verification::stores::pairs::{self, Kind};

/// How many processes: in the gate, and with `LEASEHOLD_SOAK=1`.
const PROCESSES: [usize; 2] = [6, 12];
/// The record of a process that was killed lives for so long, and its locks at most.
const LONGEST: Duration = Duration::from_secs(2);
/// The longest that one step may take, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

struct Process {
    child: ChildProcess,
    phase: Phase,
}

impl Process {
    async fn line(&mut self) -> String {
        let line = timeout(LIMIT, self.child.next_line()).await;
        let line = line.unwrap_or_else(|_| {
            panic!("a process in phase {} has printed nothing for {LIMIT:?}", self.phase)
        });
        line.unwrap().expect("a process ended by itself")
    }
}

/// What has happened, for the report and the assertions.
#[derive(Default)]
struct Counts {
    started: u32,
    killed: u32,
    refused: u32,
    stale: u32,
    renewed: u32,
}

impl Counts {
    fn count(&mut self, line: &str) {
        self.stale += u32::from(line == "stale");
        self.renewed += u32::from(line == "renewed");
    }
}

/// A fleet between two stores.
struct Rolling<'a> {
    stores: [&'a str; 2],
    folder: &'a Path,
    processes: usize,
    /// How many locks each has held before the next is moved.
    held: u32,
    counts: Counts,
}

/// Moves a fleet forward and back; panics if that fails.
pub(crate) async fn roll(from: Kind, to: Kind, held: u32) -> Rolled {
    let began = Instant::now();
    let (from, to) = (from.start(Some(LONGEST)).await, to.start(Some(LONGEST)).await);
    let (from, to) = (from.expect("a store"), to.expect("a store"));
    let folder = tempfile::tempdir().unwrap();
    let stores = [from.0.as_str(), to.0.as_str()];
    let processes = PROCESSES[child::size()];
    let mut rolling =
        Rolling { stores, folder: folder.path(), processes, held, counts: Counts::default() };
    let mut fleet = Vec::new();
    for _ in 0..processes {
        let started = rolling.start(Phase::Old).await;
        fleet.push(started);
    }
    for phase in [Phase::Both, Phase::New, Phase::Both, Phase::Old] {
        for at in 0..processes {
            // One in three is killed before it is moved, and now and then another beside it.
            rolling.end(&mut fleet[at], SystemEnv.random().is_multiple_of(3)).await;
            fleet[at] = rolling.start(phase).await;
            if SystemEnv.random().is_multiple_of(6) {
                let other = (SystemEnv.random() % processes as u128) as usize;
                let same = fleet[other].phase;
                rolling.end(&mut fleet[other], true).await;
                fleet[other] = rolling.start(same).await;
            }
            if at == processes / 2 {
                let old = fleet.iter().any(|process| process.phase == Phase::Old);
                rolling.refuse(if old { Phase::New } else { Phase::Old }).await;
            }
        }
        rolling.all_are_in(phase).await;
    }
    for process in &mut fleet {
        rolling.end(process, false).await;
    }
    let counts = rolling.counts;
    let tried = judge(folder.path(), counts.started);
    assert!(counts.killed >= 1, "nobody was killed");
    assert!(counts.renewed >= 1, "no lock was renewed");
    assert!(tried.grants as u32 >= held * processes as u32 * 5, "{} grants", tried.grants);
    Rolled {
        processes: counts.started,
        killed: counts.killed,
        refused: counts.refused,
        grants: tried.grants,
        renewed: counts.renewed,
        writes: tried.writes,
        stale: counts.stale,
        violations: tried.violations,
        took: began.elapsed(),
    }
}

impl Rolling<'_> {
    fn spawn(&mut self, phase: Phase) -> Process {
        let url = pairs::url(phase, self.stores[0], self.stores[1]);
        let spec = ChildSpec { number: self.counts.started, url, folder: self.folder.to_owned() };
        self.counts.started += 1;
        let (variable, value) = spec.variable();
        let child = ChildProcess::start(variable, &value).expect("a child process");
        Process { child, phase }
    }

    /// Starts a process and waits until it has worked.
    async fn start(&mut self, phase: Phase) -> Process {
        let mut process = self.spawn(phase);
        let mut held = 0;
        while held < self.held {
            match process.line().await.as_str() {
                "held" => held += 1,
                other => self.counts.count(other),
            }
        }
        process
    }

    /// Starts a process two phases away from others: it must not get in.
    async fn refuse(&mut self, phase: Phase) {
        let mut process = self.spawn(phase);
        assert_eq!(
            process.line().await,
            "refused",
            "phase {phase} beside a process two phases away"
        );
        self.counts.refused += 1;
        process.child.close_input();
        while let Ok(Some(line)) = process.child.next_line().await {
            assert_eq!(line, "refused", "phase {phase} beside a process two phases away");
        }
        let status = timeout(LIMIT, process.child.ended()).await.expect("an end in time").unwrap();
        assert!(status.success(), "{status}");
    }

    /// Ends a process in order, or kills it.
    async fn end(&mut self, process: &mut Process, kill: bool) {
        if kill {
            process.child.signal(rustix::process::Signal::KILL).expect("a kill");
        } else {
            process.child.close_input();
        }
        while let Ok(Some(line)) = process.child.next_line().await {
            self.counts.count(&line);
        }
        let status = timeout(LIMIT, process.child.ended()).await.expect("an end in time").unwrap();
        let killed = status.signal() == Some(rustix::process::Signal::KILL.as_raw());
        assert!(if kill { killed } else { status.success() }, "{status}");
        self.counts.killed += u32::from(killed);
    }

    /// Waits until the records show all processes in `phase`; those of killed processes must expire
    /// first.
    async fn all_are_in(&self, phase: Phase) {
        let [old, new] = [self.stores[0], self.stores[1]].map(leasehold::open);
        let (old, new) = (old.await.unwrap(), new.await.unwrap());
        let begun = Instant::now();
        loop {
            let fleet = Fleet::survey(&*old, &*new).await.unwrap();
            let steps = [Direction::Forward, Direction::Back].map(|way| fleet.next(way).ok());
            if fleet.members.len() == self.processes
                && fleet.members.iter().all(|member| member.phase == Some(phase))
            {
                let expected = match phase {
                    Phase::Old => [Some(Step::Enter(Phase::Both)), Some(Step::Leave)],
                    Phase::Both => [Some(Step::Enter(Phase::New)), Some(Step::Enter(Phase::Old))],
                    Phase::New => [Some(Step::Leave), Some(Step::Enter(Phase::Both))],
                };
                assert_eq!(
                    steps, expected,
                    "the next steps that `Fleet::next` names in phase {phase}"
                );
                break;
            }
            assert!(begun.elapsed() < LIMIT, "not all are in phase {phase}: {fleet:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        old.close().await;
        new.close().await;
    }
}
