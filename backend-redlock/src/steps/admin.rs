//! The operators' operations: inspect, list, init, tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use backend_redis::node::{Value, list, not_understood, number};
use futures_util::future::join_all;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Holder, Init, LockName, LockState, OwnerId, OwnerLabel,
    Page, Quarantined, StoreSettings,
};

use crate::{
    protocol::vote::majority,
    quorum::{
        node::{Node, NodeAnswer},
        nodes::Quorum,
        round::Round,
    },
    scripts::{self, ScriptCall, write::write},
    tunables::NAMES_PER_CALL,
};

/// One node's record of a name.
pub(crate) struct NodeRecord {
    holder: Holder,
    token: u64,
    kept: bool,
    /// The readers, if readers share it.
    readers: Option<BTreeSet<OwnerId>>,
}

#[derive(Default)]
struct NodeRecords {
    records: Vec<NodeRecord>,
    waiting: u64,
}

/// Asks all nodes for which calls wait, and passes their answers to `add`. A majority must answer.
async fn ask_majority(
    quorum: &Arc<Quorum>,
    call: &Arc<ScriptCall>,
    mut add: impl FnMut(NodeAnswer) -> Result<(), Error>,
) -> Result<(), Error> {
    let limit = quorum.options.admin_wait();
    let mut round = Round::ask(quorum, &quorum.contacts(), call, limit);
    let (mut answered, mut failure) = (0, None);
    while let Some((_, answer)) = round.next().await {
        match answer {
            Ok(answer) => {
                answered += 1;
                add(answer)?;
            }
            Err(error) => failure = Some(error),
        }
    }
    round.finish(quorum, |_, _| {});
    if answered < quorum.majority() { Err(quorum.too_few(answered, failure)) } else { Ok(()) }
}

async fn read_states(quorum: &Arc<Quorum>, names: &[LockName]) -> Result<Vec<NodeRecords>, Error> {
    let mut seen: Vec<NodeRecords> = names.iter().map(|_| NodeRecords::default()).collect();
    let call = scripts::inspect(&quorum.nodes[0].server, names);
    ask_majority(quorum, &call, |answer| {
        let states = list(answer.part(2)?.clone())?;
        seen.iter_mut().zip(states).try_for_each(|(seen, state)| seen.add(state))
    })
    .await?;
    Ok(seen)
}

pub(crate) async fn inspect(
    quorum: &Arc<Quorum>,
    name: &LockName,
) -> Result<Option<LockState>, Error> {
    let seen = read_states(quorum, std::slice::from_ref(name)).await?.pop().unwrap_or_default();
    Ok(seen.state(name, quorum.nodes.len()))
}

/// Lists all held names in one page. A held name is on a majority of the nodes, and every other
/// majority shares a node with that one.
pub(crate) async fn list_held(quorum: &Arc<Quorum>) -> Result<Page, Error> {
    let nodes = quorum.nodes.len();
    let needed = nodes - quorum.majority() + 1;
    let contacts = quorum.contacts();
    let scans = join_all(contacts.iter().map(|at| names_on(&quorum.nodes[*at]))).await;
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
        return Err(quorum.too_few(scanned, failure));
    }
    let names: Vec<_> = names.into_iter().collect();
    let mut locks = Vec::new();
    for part in names.chunks(NAMES_PER_CALL) {
        let states = part.iter().zip(read_states(quorum, part).await?);
        locks.extend(states.filter_map(|(name, seen)| seen.state(name, nodes)));
    }
    locks.retain(|state| state.holder.is_some());
    Ok(Page::new(locks, None))
}

async fn names_on(node: &Node) -> Result<BTreeSet<LockName>, Error> {
    let (mut cursor, mut names) = (0, BTreeSet::new());
    loop {
        let (next, found) = node.server.scan(cursor).await?;
        names.extend(found);
        if next == 0 {
            return Ok(names);
        }
        cursor = next;
    }
}

/// Sets up every node. A node that was left out would disagree with the others.
pub(crate) async fn init(quorum: &Quorum, init: &Init) -> Result<StoreSettings, Error> {
    init.refuse_restored("a restore restarts a node, which starts its quarantine")?;
    init.refuse_records_complete()?;
    if let Some(longest) = init.longest_lease {
        quorum.options.check_longest(longest)?;
    }
    let set = join_all(quorum.nodes.iter().map(|node| node.server.init(init))).await;
    let mut all: Option<StoreSettings> = None;
    for (node, settings) in quorum.nodes.iter().zip(set) {
        let mut settings = settings.map_err(|error| {
            let message = format!(
                "{} was not set up, and all nodes are needed; repeat init when it can be reached",
                node.address
            );
            Error::new(error.kind(), message).with_source(error)
        })?;
        if let Some(all) = &all {
            settings.grants_in = settings.grants_in.max(all.grants_in);
        }
        all = Some(settings);
    }
    all.ok_or_else(not_understood)
}

/// How long no majority of the nodes grants, because some are in quarantine. A node that does not
/// answer counts as one that grants.
pub(crate) async fn quarantine(quorum: &Quorum) -> Option<Quarantined> {
    let asked = join_all(quorum.nodes.iter().map(|node| node.server.quarantine())).await;
    let mut held_back: Vec<_> =
        asked.into_iter().filter_map(|answer| answer.ok().flatten()).collect();
    held_back.sort_by_key(|quarantined| quarantined.remaining);
    let grant = quorum.nodes.len() - held_back.len();
    let needed = majority(quorum.nodes.len()).checked_sub(grant + 1)?;
    held_back.into_iter().nth(needed)
}

/// The highest watermark of the nodes that answer, at least a majority.
pub(crate) async fn highest_mark(quorum: &Arc<Quorum>) -> Result<FencingToken, Error> {
    let mut highest = FencingToken::ZERO;
    ask_majority(quorum, &scripts::highest(&quorum.nodes[0].server), |answer| {
        let mark = FencingToken::new(answer.number(2)?).unwrap_or(FencingToken::MAX);
        highest = highest.max(mark);
        Ok(())
    })
    .await?;
    Ok(highest)
}

/// Reads the nodes' clocks.
///
/// # Errors
/// If no majority answers.
pub(crate) async fn refresh_clocks(quorum: &Arc<Quorum>) -> Result<(), Error> {
    ask_majority(quorum, &scripts::hello(&quorum.nodes[0].server), |_| Ok(())).await
}

pub(crate) async fn raise(
    quorum: &Arc<Quorum>,
    grant: &Grant,
    token: FencingToken,
) -> Result<(), Error> {
    let lead = quorum.settings()?.longest_lease.saturating_sub(quorum.options.margin());
    let server = &quorum.nodes[0].server;
    let call = write(server, &grant.name, grant.owner, token.get(), Some(lead));
    let limit = quorum.options.wait(grant.lease);
    let mut round = Round::ask(quorum, &quorum.contacts(), &call, limit);
    let (mut raised, mut gone, mut answered, mut failure) = (0, 0, 0, None);
    while raised < quorum.majority() && gone < quorum.majority() {
        match round.next().await {
            Some((_, Ok(answer))) if answer.word == "floor" => {
                let allowed = answer.number(2)?;
                let message = format!(
                    "token {token} leads the nodes' clock by more than the longest lease; it must be at \
                     most {allowed}"
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
    round.finish(quorum, |_, _| {});
    if raised >= quorum.majority() {
        return Ok(());
    }
    if gone >= quorum.majority() {
        let message = "the grant whose token was to be raised is gone";
        return Err(Error::new(ErrorKind::NotHeld, message));
    }
    match failure {
        Some(error) if error.kind() == ErrorKind::InvalidInput => Err(error),
        failure => Err(quorum.too_few(answered, failure)),
    }
}

impl NodeRecords {
    fn add(&mut self, state: Value) -> Result<(), Error> {
        let parts = list(state)?;
        let [record, left, waiting] = parts.as_slice() else { return Err(not_understood()) };
        self.waiting = self.waiting.max(number(waiting)?);
        if let Value::BulkString(record) = record {
            let left = Duration::from_millis(number(left)?);
            self.records.push(read_record(record, left).unwrap_or_else(|| NodeRecord {
                holder: Holder::unreadable(left),
                token: 0,
                kept: false,
                readers: None,
            }));
        }
        Ok(())
    }

    /// What a majority of `nodes` has. `None` if no owner holds the name or waits for it.
    fn state(&self, name: &LockName, nodes: usize) -> Option<LockState> {
        let mut holders: BTreeMap<OwnerId, Vec<&NodeRecord>> = BTreeMap::new();
        for record in &self.records {
            holders.entry(record.holder.owner).or_default().push(record);
        }
        let highest = self.records.iter().map(|record| record.token).max().unwrap_or(0);
        let of_majority = |records: &Vec<&NodeRecord>| {
            records.len() >= majority(nodes) && readers(records, nodes) != Some(0)
        };
        let held = holders.into_values().find(of_majority);
        if let Some(records) = held {
            let mut tokens: BTreeMap<u64, usize> = BTreeMap::new();
            for record in &records {
                *tokens.entry(record.token).or_default() += 1;
            }
            let (token, _) = tokens.into_iter().max_by_key(|(_, count)| *count)?;
            let mut left: Vec<_> = records.iter().map(|record| record.holder.remaining).collect();
            left.sort_unstable_by(|a, b| b.cmp(a));
            let remaining = left[majority(nodes) - 1];
            let Holder { owner, label, .. } = records[0].holder.clone();
            let holder = Holder::new(owner, label, remaining);
            let token = FencingToken::new(token)?;
            let kept = records.iter().filter(|record| record.kept).count() >= majority(nodes);
            let state = LockState::new(name.clone(), Some(holder), token).with_kept(kept);
            return Some(state.with_readers(readers(&records, nodes)).with_waiting(self.waiting));
        }
        (self.waiting > 0).then(|| {
            let token = FencingToken::new(highest).unwrap_or(FencingToken::ZERO);
            LockState::new(name.clone(), None, token).with_waiting(self.waiting)
        })
    }
}

/// How many readers have the lock on a majority of `nodes`; `None` if it is not shared.
fn readers(records: &[&NodeRecord], nodes: usize) -> Option<u64> {
    let mut counts: BTreeMap<OwnerId, usize> = BTreeMap::new();
    for owner in records.iter().flat_map(|record| record.readers.iter().flatten()) {
        *counts.entry(*owner).or_default() += 1;
    }
    records.first()?.readers.as_ref()?;
    Some(counts.values().filter(|count| **count >= majority(nodes)).count() as u64)
}

/// Reads `owner number state attempt label`, and if readers share it a line `owner number attempt`
/// for each of them.
pub(crate) fn read_record(record: &[u8], left: Duration) -> Option<NodeRecord> {
    let mut lines = std::str::from_utf8(record).ok()?.split('\n');
    let mut parts = lines.next()?.splitn(5, ' ');
    let owner = parts.next()?.parse().ok()?;
    let token = parts.next()?.parse().ok().filter(|token| FencingToken::new(*token).is_some())?;
    let kept = parts.next().filter(|state| ["0", "1"].contains(state))? == "1";
    let label = OwnerLabel::new(parts.nth(1)?).ok()?;
    let reader = |line: &str| line.split(' ').next()?.parse().ok();
    let readers: BTreeSet<OwnerId> = lines.map(reader).collect::<Option<_>>()?;
    // Only a record of readers has further lines.
    (readers.is_empty() != (owner == OwnerId::READERS)).then_some(())?;
    let readers = (!readers.is_empty()).then_some(readers);
    Some(NodeRecord { holder: Holder::new(owner, label, left), token, kept, readers })
}
