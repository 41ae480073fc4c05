//! What operators ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use backend_redis::node::{Value, list, not_understood, number};
use futures_util::future::join_all;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Holder, Init, LockName, LockState, OwnerId, OwnerLabel,
    Page, StoreSettings,
};

use crate::{
    acquire::watermark,
    quorum::{Call, Quorum},
    scripts,
    vote::majority,
};

/// How many names are looked at in one call.
const PART: usize = 200;

/// One node's record of a name.
pub(crate) struct Record {
    holder: Holder,
    token: u64,
    kept: bool,
}

#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    places: u64,
}

impl Quorum {
    /// Asks all that are worth waiting for; a majority must answer.
    async fn look(self: &Arc<Self>, names: &[LockName]) -> Result<Vec<Seen>, Error> {
        let node = &self.peers[0].node;
        let keys: Vec<_> = names.iter().flat_map(|name| node.lock_and_queue(name)).collect();
        let call = Call::plain(&scripts::LOOK, keys, Vec::new());
        let mut round = self.ask(&self.contacts(), &call, self.options.patient_wait());
        let mut seen: Vec<Seen> = names.iter().map(|_| Seen::default()).collect();
        let mut answered = 0;
        let mut failure = None;
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(answer) => {
                    answered += 1;
                    for (seen, state) in seen.iter_mut().zip(list(answer.part(2)?.clone())?) {
                        seen.hear(state)?;
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        round.finish(self, |_, _| {});
        if answered < self.majority() {
            return Err(self.too_few(answered, failure));
        }
        Ok(seen)
    }

    pub(crate) fn too_few(&self, answered: usize, failure: Option<Error>) -> Error {
        let message = format!(
            "{answered} of {} nodes answered, and {} are needed",
            self.peers.len(),
            self.majority()
        );
        let kind = failure.as_ref().filter(|error| !error.is_retryable()).map(Error::kind);
        let error = Error::new(kind.unwrap_or(ErrorKind::Unavailable), message);
        match failure {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }

    pub(crate) async fn inspect(
        self: &Arc<Self>,
        name: &LockName,
    ) -> Result<Option<LockState>, Error> {
        let seen = self.look(std::slice::from_ref(name)).await?.pop().unwrap_or_default();
        Ok(seen.state(name, self.peers.len()))
    }

    /// All held names in one part. A held name is on a majority, and so on one of any nodes that are
    /// one more than the rest.
    pub(crate) async fn list(self: &Arc<Self>) -> Result<Page, Error> {
        let needed = self.peers.len() - self.majority() + 1;
        let contacts = self.contacts();
        let scans = join_all(contacts.iter().map(|at| self.names_on(*at))).await;
        let (mut names, mut scanned, mut failure) = (BTreeSet::new(), 0, None);
        for scan in scans {
            match scan {
                Ok(found) => {
                    scanned += 1;
                    names.extend(found);
                }
                Err(error) => failure = Some(error),
            }
        }
        if scanned < needed {
            return Err(self.too_few(scanned, failure));
        }
        let names: Vec<_> = names.into_iter().collect();
        let mut locks = Vec::new();
        for part in names.chunks(PART) {
            let seen = self.look(part).await?;
            let states = part.iter().zip(seen);
            locks.extend(states.filter_map(|(name, seen)| seen.state(name, self.peers.len())));
        }
        locks.retain(|state| state.holder.is_some());
        Ok(Page { locks, next: None })
    }

    async fn names_on(&self, at: usize) -> Result<BTreeSet<LockName>, Error> {
        let (mut cursor, mut names) = (0, BTreeSet::new());
        loop {
            let (next, found) = self.peers[at].node.scan(cursor).await?;
            names.extend(found);
            if next == 0 {
                return Ok(names);
            }
            cursor = next;
        }
    }

    /// Sets every node up: a node that is left out would disagree with the others.
    pub(crate) async fn init(self: &Arc<Self>, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored("a restore restarts a node, which starts its quarantine")?;
        let bound = self.options.clock_bound;
        if let Some(longest) = init.longest_lease.filter(|longest| *longest < 8 * bound) {
            return Err(too_short(longest, bound));
        }
        let set = join_all(self.peers.iter().map(|peer| peer.node.init(init))).await;
        let mut all: Option<StoreSettings> = None;
        for (peer, settings) in self.peers.iter().zip(set) {
            let settings = settings.map_err(|error| {
                let message = format!(
                    "{} was not set up, and all nodes are needed; repeat init when it can be reached",
                    peer.address
                );
                Error::new(error.kind(), message).with_source(error)
            })?;
            let grants_in = all
                .as_ref()
                .map_or(settings.grants_in, |all| all.grants_in.max(settings.grants_in));
            all = Some(settings);
            if let Some(all) = &mut all {
                all.grants_in = grants_in;
            }
        }
        all.ok_or_else(not_understood)
    }

    /// The highest watermark of those nodes that answer, at least a majority.
    pub(crate) async fn highest_mark(self: &Arc<Self>) -> Result<FencingToken, Error> {
        let keys = vec![self.peers[0].node.epoch_key()];
        let call = Call::plain(&scripts::HIGHEST, keys, Vec::new());
        let mut round = self.ask(&self.contacts(), &call, self.options.patient_wait());
        let (mut highest, mut answered, mut failure) = (FencingToken::ZERO, 0, None);
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(answer) => {
                    answered += 1;
                    let mark = FencingToken::new(answer.number(2)?).unwrap_or(FencingToken::MAX);
                    highest = highest.max(mark);
                }
                Err(error) => failure = Some(error),
            }
        }
        round.finish(self, |_, _| {});
        if answered < self.majority() { Err(self.too_few(answered, failure)) } else { Ok(highest) }
    }

    pub(crate) async fn raise(
        self: &Arc<Self>,
        grant: &Grant,
        token: FencingToken,
    ) -> Result<(), Error> {
        let [epoch, lock, ..] = self.peers[0].node.keys(&grant.name, grant.owner);
        let lead = self.settings()?.longest_lease.saturating_sub(2 * self.options.clock_bound);
        let arguments = vec![
            grant.owner.to_string(),
            token.to_string(),
            watermark(&grant.name),
            lead.as_micros().to_string(),
        ];
        let call = Call::plain(&scripts::WRITE, [epoch, lock], arguments);
        let mut round = self.ask(&self.contacts(), &call, self.options.wait(grant.lease));
        let (mut raised, mut gone, mut answered, mut failure) = (0, 0, 0, None);
        while raised < self.majority() && gone < self.majority() {
            match round.next().await {
                Some((_, Ok(answer))) if answer.word == "floor" => {
                    let allowed = answer.number(2)?;
                    let message = format!(
                        "token {token} leads the nodes' clock by more than the longest lease; allowed \
                         is up to {allowed}"
                    );
                    failure = Some(Error::new(ErrorKind::InvalidInput, message));
                }
                Some((_, Ok(answer))) => {
                    answered += 1;
                    let done = answer.number(2)? == 1;
                    raised += usize::from(done);
                    gone += usize::from(!done);
                }
                Some((_, Err(error))) => failure = Some(error),
                None => break,
            }
        }
        round.finish(self, |_, _| {});
        if raised >= self.majority() {
            return Ok(());
        }
        if gone >= self.majority() {
            let message = "the grant whose token was to be raised is gone";
            return Err(Error::new(ErrorKind::NotHeld, message));
        }
        match failure {
            Some(error) if error.kind() == ErrorKind::InvalidInput => Err(error),
            failure => Err(self.too_few(answered, failure)),
        }
    }
}

pub(crate) fn too_short(longest: Duration, bound: Duration) -> Error {
    let show = humantime::format_duration;
    let message = format!(
        "longest lease {} is less than eight times the clock bound of {}; allowed is {} or more, or a \
         smaller bound",
        show(longest),
        show(bound),
        show(8 * bound)
    );
    Error::new(ErrorKind::Config, message)
}

impl Seen {
    fn hear(&mut self, state: Value) -> Result<(), Error> {
        let parts = list(state)?;
        let [record, left, places] = parts.as_slice() else { return Err(not_understood()) };
        self.places = self.places.max(number(places)?);
        if let Value::BulkString(record) = record {
            let left = Duration::from_millis(number(left)?);
            self.records.push(read_record(record, left).unwrap_or_else(|| Record {
                holder: Holder::unreadable(left),
                token: 0,
                kept: false,
            }));
        }
        Ok(())
    }

    /// What a majority of `nodes` has; `None` if nobody holds the name or waits for it.
    fn state(&self, name: &LockName, nodes: usize) -> Option<LockState> {
        let mut holders: BTreeMap<OwnerId, Vec<&Record>> = BTreeMap::new();
        for record in &self.records {
            holders.entry(record.holder.owner).or_default().push(record);
        }
        let highest = self.records.iter().map(|record| record.token).max().unwrap_or(0);
        let held = holders.into_values().find(|records| records.len() >= majority(nodes));
        if let Some(records) = held {
            let mut tokens: BTreeMap<u64, usize> = BTreeMap::new();
            for record in &records {
                *tokens.entry(record.token).or_default() += 1;
            }
            let (token, _) = tokens.into_iter().max_by_key(|(_, count)| *count)?;
            let mut left: Vec<_> = records.iter().map(|record| record.holder.remaining).collect();
            left.sort_unstable_by(|a, b| b.cmp(a));
            let remaining = left[majority(nodes) - 1];
            let holder = Holder { remaining, ..records[0].holder.clone() };
            let token = FencingToken::new(token)?;
            let kept = records.iter().filter(|record| record.kept).count() >= majority(nodes);
            let state = LockState::new(name.clone(), Some(holder), token).with_kept(kept);
            return Some(state.with_waiting(self.places));
        }
        (self.places > 0).then(|| {
            let token = FencingToken::new(highest).unwrap_or(FencingToken::ZERO);
            LockState::new(name.clone(), None, token).with_waiting(self.places)
        })
    }
}

/// `owner number state attempt label`.
pub(crate) fn read_record(record: &[u8], left: Duration) -> Option<Record> {
    let mut parts = std::str::from_utf8(record).ok()?.splitn(5, ' ');
    let owner = parts.next()?.parse().ok()?;
    let token = parts.next()?.parse().ok().filter(|token| FencingToken::new(*token).is_some())?;
    let kept = parts.next().filter(|state| ["0", "1"].contains(state))? == "1";
    let label = OwnerLabel::new(parts.nth(1)?).ok()?;
    Some(Record { holder: Holder { owner, label, remaining: left }, token, kept })
}
