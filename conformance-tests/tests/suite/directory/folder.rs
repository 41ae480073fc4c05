//! The store: some JSON files in a folder, each replaced as a whole, by one process at a time.

use std::{collections::BTreeMap, fs::File, io, path::PathBuf, time::Duration};

use lock_core::{
    Busy, Env as _, Error, ErrorKind, FencingToken, Holder, Instant, LockName, LockState, OwnerId,
    OwnerLabel, Request, SystemEnv,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// How long an owner that was abandoned is remembered: no call takes longer.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The shortest and the longest pause between two polls of a waiter.
pub(crate) const POLL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// How many files there are. A step reads and writes all locks of one file.
const FILES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// What a file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// At least the last token of every name that is not held.
    watermark: FencingToken,
    pub(crate) held: BTreeMap<LockName, Record>,
    abandoned: BTreeMap<OwnerId, Instant>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) owner: OwnerId,
    label: OwnerLabel,
    pub(crate) token: FencingToken,
    pub(crate) expires: Instant,
    /// Released with `keep`: the lock stays taken until `expires`.
    pub(crate) kept: bool,
}

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// One atomic step on the file of a name.
    pub(crate) async fn step<T: Send + 'static>(
        &self,
        operation: &'static str,
        name: &LockName,
        work: impl FnOnce(&mut State, &LockName, Instant) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let name = name.clone();
        let file = name.as_str().bytes().map(usize::from).sum::<usize>() % FILES;
        self.on_file(operation, file, move |state, now| work(state, &name, now)).await
    }

    /// All locks, one file after the other.
    pub(crate) async fn all(&self) -> Result<Vec<LockState>, Error> {
        let mut all = Vec::new();
        for file in 0..FILES {
            let states = self.on_file("list", file, |state, now| {
                let held = state.held.iter();
                held.map(|(name, record)| record.state(name.clone(), now)).collect::<Vec<_>>()
            });
            all.extend(states.await?);
        }
        Ok(all)
    }

    /// Nobody else reads or writes the file meanwhile. A process that is killed during a step has
    /// changed nothing, and the kernel frees its `flock`.
    async fn on_file<T: Send + 'static>(
        &self,
        operation: &'static str,
        file: usize,
        work: impl FnOnce(&mut State, Instant) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let folder = self.0.clone();
        let done = tokio::task::spawn_blocking(move || -> io::Result<T> {
            let path = folder.join(format!("{file}.guard"));
            let guard = File::options().create(true).append(true).open(path)?;
            flock(&guard, FlockOperation::LockExclusive)?;
            let path = folder.join(format!("{file}.json"));
            let mut state = match std::fs::read(&path) {
                Ok(text) => serde_json::from_slice(&text)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
                Err(error) => return Err(error),
            };
            let now = SystemEnv.now();
            state.forget(now);
            let answer = work(&mut state, now);
            let next = folder.join(format!("{file}.next"));
            std::fs::write(&next, serde_json::to_vec(&state)?)?;
            std::fs::rename(next, path)?;
            Ok(answer)
        });
        let done = done.await.map_err(io::Error::from).and_then(|done| done);
        done.map_err(|error| {
            let error = Error::new(ErrorKind::Unavailable, "the folder failed").with_source(error);
            error.at("directory", operation)
        })
    }
}

impl State {
    fn forget(&mut self, now: Instant) {
        let State { watermark, held, abandoned } = self;
        held.retain(|_, record| {
            // Whatever forgets a name's token raises the watermark to it first.
            *watermark = (*watermark).max(record.token);
            now < record.expires
        });
        abandoned.retain(|_, until| now < *until);
    }

    /// One attempt: the token of a grant, or why the lock is busy; `None` when the tokens are used
    /// up.
    pub(crate) fn attempt(
        &mut self,
        request: &Request,
        now: Instant,
    ) -> Option<Result<FencingToken, Busy>> {
        if let Some(record) = self.held.get_mut(&request.name) {
            if record.owner == request.owner && !record.kept {
                record.expires = record.expires.max(now + request.lease);
                return Some(Ok(record.token));
            }
            let holder = record.holder(now);
            let retry_after = holder.remaining.clamp(POLL[0], POLL[1]);
            return Some(Err(Busy::new(Some(holder), record.token, retry_after)));
        }
        if self.abandoned.contains_key(&request.owner) {
            let (holder, token, retry_after) = (None, self.watermark, POLL[1]);
            return Some(Err(Busy::new(holder, token, retry_after)));
        }
        let token = FencingToken::mint(SystemEnv.wall_micros(), self.watermark, request.floor)?;
        let (owner, label) = (request.owner, request.label.clone());
        let record = Record { owner, label, token, expires: now + request.lease, kept: false };
        self.held.insert(request.name.clone(), record);
        Some(Ok(token))
    }

    /// What this owner holds, if it does.
    pub(crate) fn of(&mut self, name: &LockName, owner: OwnerId) -> Option<&mut Record> {
        self.held.get_mut(name).filter(|record| record.owner == owner)
    }

    pub(crate) fn free(&mut self, name: &LockName) -> bool {
        let freed = self.held.remove(name);
        let token = freed.as_ref().map_or(FencingToken::ZERO, |record| record.token);
        self.watermark = self.watermark.max(token);
        freed.is_some()
    }

    pub(crate) fn abandon(&mut self, name: &LockName, owner: OwnerId, now: Instant) {
        self.abandoned.insert(owner, now + REMEMBERED);
        // A lock that was released with `keep` stays taken.
        if self.of(name, owner).is_some_and(|record| !record.kept) {
            self.free(name);
        }
    }
}

impl Record {
    pub(crate) fn holder(&self, now: Instant) -> Holder {
        let remaining = self.expires.since(now);
        Holder::new(self.owner, self.label.clone(), remaining)
    }

    pub(crate) fn state(&self, name: LockName, now: Instant) -> LockState {
        LockState::new(name, Some(self.holder(now)), self.token).with_kept(self.kept)
    }
}
