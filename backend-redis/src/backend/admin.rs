//! The operations for operators: states of locks, listings, `init`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lock_core::{
    Cursor, Env as _, Error, ErrorKind, FencingToken, Holder, Init, LockName, LockState, OwnerId,
    OwnerLabel, Page, Quarantined, StoreSettings, SystemEnv,
};
use redis::Value;

use crate::{
    connection::identity,
    guarantees::{failover::Failover, promises},
    keys::Bucket,
    scripts::{
        self, Arguments,
        reply::{self, Answer, Reply, not_understood},
    },
    settings::{AgreedSettings, check_longest},
    store::Store,
    tunables::{KEYS_MEANWHILE, LISTED_AT_ONCE, LISTING_TRIES},
};

/// The operations for operators.
pub(crate) struct Admin<'a>(pub(crate) &'a Store);

impl Admin<'_> {
    /// The states of those among `names` that are held or have waiters.
    pub(crate) async fn states(
        &self,
        bucket: Bucket,
        names: &[LockName],
    ) -> Result<Vec<LockState>, Error> {
        let mut keys = vec![self.0.keys.epoch(bucket)];
        for name in names {
            keys.extend([self.0.keys.lock(name), self.0.keys.queue(name)]);
        }
        let answer = self.0.run(bucket, &scripts::INSPECT, &keys, &Arguments::default()).await?;
        let mut answers = reply::list(answer)?;
        let mark = highest(&answers.pop().ok_or_else(not_understood)?);
        let mut states = Vec::new();
        for (name, answer) in names.iter().zip(answers) {
            let parts = reply::list(answer)?;
            let [record, left, waiting] = parts.as_slice() else { return Err(not_understood()) };
            let waiting = reply::number(waiting)?;
            if let Value::BulkString(record) = record {
                let remaining = Duration::from_millis(reply::number(left)?);
                let state = match read_record(record) {
                    Some(LockRecord { owner, token, kept, label, readers }) => {
                        let holder = Some(Holder::new(owner, label, remaining));
                        let state = LockState::new(name.clone(), holder, token);
                        state.with_kept(kept).with_readers(readers)
                    }
                    None => LockState::new(name.clone(), Some(Holder::unreadable(remaining)), mark),
                };
                states.push(state.with_waiting(waiting));
            } else if waiting > 0 {
                states.push(LockState::new(name.clone(), None, mark).with_waiting(waiting));
            }
        }
        Ok(states)
    }

    pub(crate) async fn page(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let cursor = from.unwrap_or_else(|| "0".into());
        if cursor.parse::<u64>().is_err() {
            let message = format!("{cursor:?} is no cursor of a listing; must be a page's `next`");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        if self.0.keys.are_sharded() {
            return self.page_of_bucket(&cursor).await;
        }
        let bucket = Bucket::FIRST;
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(self.0.keys.all_locks(bucket))
            .arg("COUNT")
            .arg(LISTED_AT_ONCE);
        let answer = reply::list(self.0.send(bucket, &scan).await?)?;
        let [next, found] = answer.as_slice() else { return Err(not_understood()) };
        let next = reply::text(next)?.to_owned();
        let locks = self.held_among(bucket, reply::list(found.clone())?).await?;
        Ok(Page::new(locks, (next != "0").then_some(next)))
    }

    /// Lists one bucket (one slot) per page. While the slot moves between nodes, the page lacks the
    /// keys that have moved already.
    async fn page_of_bucket(&self, cursor: &str) -> Result<Page, Error> {
        let number: u16 = cursor.parse().unwrap_or(u16::MAX);
        let Some(bucket) = self.0.keys.buckets().nth(number.into()) else {
            return Ok(Page::default());
        };
        let slot = bucket.slot();
        // Finds the node. A node lists the keys that it has of a slot even if it does not serve the
        // slot.
        for _ in 0..LISTING_TRIES {
            self.states(bucket, &[]).await?;
            let connection = self.0.connection(bucket).await?;
            let ask = |word: &str, rest: &[u64]| {
                let mut command = redis::cmd("CLUSTER");
                command.arg(word).arg(slot).arg(rest);
                command
            };
            let count =
                reply::number(&connection.commands.ask(&ask("COUNTKEYSINSLOT", &[])).await?)?;
            let found =
                connection.commands.ask(&ask("GETKEYSINSLOT", &[count + KEYS_MEANWHILE])).await?;
            let locks = self.held_among(bucket, reply::list(found)?).await?;
            if Arc::ptr_eq(&connection, &self.0.connection(bucket).await?) {
                let next = (usize::from(number) + 1 < self.0.keys.buckets().count())
                    .then(|| (number + 1).to_string());
                return Ok(Page::new(locks, next));
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "a slot moved again and again during the listing"))
    }

    /// The states of those keys among these that are locks and are held.
    async fn held_among(&self, bucket: Bucket, found: Vec<Value>) -> Result<Vec<LockState>, Error> {
        let mut names = BTreeSet::new();
        for key in found {
            if let Value::BulkString(key) = key {
                names.extend(self.0.keys.name_of(bucket, &key));
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        // If there are no names, this still checks the version of the records.
        let mut locks = self.states(bucket, &names[..names.len().min(LISTED_AT_ONCE)]).await?;
        for part in names.chunks(LISTED_AT_ONCE).skip(1) {
            locks.extend(self.states(bucket, part).await?);
        }
        locks.retain(|state| state.holder.is_some());
        Ok(locks)
    }

    pub(crate) async fn set_up(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored("a restore restarts the server, which starts the quarantine")?;
        if let Some(longest) = init.longest_lease {
            check_longest(longest)?;
            self.agree_with("longest_lease", self.0.settings.longest_lease, longest)?;
        }
        if let Some(quarantine) = init.quarantine {
            self.agree_with("quarantine", self.0.settings.quarantine, quarantine)?;
        }
        if init.first_use && init.reset_tokens {
            let message = "a first use grants at once, and tokens that are set back wait for a quarantine; \
                           give one of the two";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let longest = init.longest_lease.or(self.0.settings.longest_lease);
        let quarantine = init.quarantine.or(self.0.settings.quarantine);
        let (first_use, reset_tokens) = (init.first_use, init.reset_tokens);
        let own =
            scripts::init(first_use, reset_tokens, longest, quarantine, init.records_complete);
        let all = self.0.keys.buckets().map(|bucket| {
            let own = &own;
            async move {
                let keys = [self.0.keys.epoch(bucket)];
                self.0.run_in_epoch(bucket, &scripts::INIT, &keys, own, Answer::plain).await
            }
        });
        let mut settings = None::<StoreSettings>;
        for answer in futures_util::future::join_all(all).await {
            let Some(Reply::Set { longest, quarantine, grants_in }) = answer?.reply else {
                return Err(not_understood());
            };
            let longest = Duration::from_micros(longest);
            let known = settings.get_or_insert(StoreSettings::new(longest, Some(quarantine)));
            known.grants_in = known.grants_in.max(grants_in);
            if known.longest_lease != longest || known.quarantine != Some(quarantine) {
                let message = "the buckets of the cluster differ in their settings; name longest_lease \
                               and quarantine to init";
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        let settings = settings.ok_or_else(not_understood)?;
        let quarantine = settings.quarantine == Some(true);
        self.0.set_agreed(AgreedSettings { longest_lease: settings.longest_lease, quarantine });
        Ok(settings)
    }

    /// The highest watermark of all buckets.
    pub(crate) async fn highest_mark(&self) -> Result<FencingToken, Error> {
        let marks = self.0.keys.buckets().map(|bucket| async move {
            let keys = [self.0.keys.epoch(bucket)];
            let none = Arguments::default();
            reply::list(self.0.run(bucket, &scripts::INSPECT, &keys, &none).await?)
        });
        let marks = futures_util::future::try_join_all(marks).await?;
        Ok(marks.iter().flatten().map(highest).max().unwrap_or(FencingToken::ZERO))
    }

    /// The quarantine that lasts longest, of all buckets: one that runs, or one that the next
    /// client begins, because there is no record of this run of the server. It changes nothing.
    pub(crate) async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        let buckets = self.0.keys.buckets().map(|bucket| self.quarantine_of(bucket));
        let all = futures_util::future::try_join_all(buckets).await?;
        Ok(all.into_iter().flatten().max_by_key(|it| it.remaining))
    }

    async fn quarantine_of(&self, bucket: Bucket) -> Result<Option<Quarantined>, Error> {
        let mut ask = redis::cmd("HMGET");
        let fields = ["run", "replid", "from", "why", "longest", "quarantine", "span"];
        ask.arg(self.0.keys.epoch(bucket)).arg(&fields);
        let answer = reply::list(self.0.send(bucket, &ask).await?)?;
        let [run, replid, from, why, longest, quarantine, span] = answer.as_slice() else {
            return Err(not_understood());
        };
        let number = |value| reply::text(value).ok().and_then(|text| text.parse::<u64>().ok());
        let connection = self.0.connection(bucket).await?;
        let handshake = connection.handshake().await?;
        let (identity, agreed) = (&handshake.identity, self.0.agreed());
        if reply::text(run).is_ok_and(|run| run == identity.run)
            && reply::text(replid).is_ok_and(|replid| replid == identity.replid)
        {
            let Some(from) = number(from).filter(|from| *from > 0) else { return Ok(None) };
            let time = reply::list(self.0.send(bucket, &redis::cmd("TIME")).await?)?;
            let [seconds, micros] = time.as_slice() else { return Err(not_understood()) };
            let now = reply::number(seconds)?.saturating_mul(1_000_000) + reply::number(micros)?;
            let why = reply::text(why).unwrap_or("an operator set the quarantine").to_owned();
            let left = from.checked_sub(now).filter(|left| *left > 0);
            return Ok(left.map(|left| Quarantined::new(Duration::from_micros(left), why)));
        }
        if reply::text(quarantine).map_or(!agreed.quarantine, |on| on != "on") {
            return Ok(None);
        }
        // As check_epoch.lua counts.
        let micros = |span: Option<u64>| Duration::from_micros(span.unwrap_or(0));
        let margin = Failover::of(&self.0.settings, identity).argument().parse().ok();
        let wait = micros(number(longest)).max(agreed.longest_lease) + micros(margin);
        let wait = wait.max(micros(number(span)));
        if handshake.seen.witness || promises::wait_of_first_use(identity, agreed).is_some() {
            let why = "no client has asked for a lock since the server's start or a loss of data; \
                       the next one begins this wait";
            return Ok(Some(Quarantined::new(wait, why)));
        }
        // As first_use.lua counts.
        let info = connection.info("server").await?;
        let uptime = identity::field(&info, "uptime_in_seconds")
            .and_then(|seconds| seconds.parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        let left = (wait + Duration::from_secs(2)).saturating_sub(uptime).min(wait);
        let how = if reply::text(run).is_ok() { "restarted" } else { "started" };
        let why =
            format!("the server {how} less than a longest lease ago, and may have lost locks");
        Ok(Some(Quarantined::new(left, why)).filter(|it| !it.remaining.is_zero()))
    }

    /// A random name of the store, kept in its epoch record.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        let fresh = scripts::identity(SystemEnv.random());
        let bucket = Bucket::FIRST;
        let keys = [self.0.keys.epoch(bucket)];
        let answer = self.0.run(bucket, &scripts::IDENTITY, &keys, &fresh).await?;
        Ok(format!("redis:{}", reply::text(&answer)?))
    }

    fn agree_with<T: PartialEq + std::fmt::Debug>(
        &self,
        option: &str,
        configured: Option<T>,
        wanted: T,
    ) -> Result<(), Error> {
        match configured {
            Some(configured) if configured != wanted => Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "init would set {option} to {wanted:?}, but this client is configured with {configured:?}; both must be \
                     the same, or the client must have no {option}"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The clock difference of the server that differs most, over all servers in use.
    pub(crate) async fn clock_difference(&self) -> Result<i64, Error> {
        for bucket in self.0.keys.buckets() {
            self.0.connection(bucket).await?;
        }
        let mut differences = Vec::new();
        for connection in self.0.pool.alive() {
            let before = SystemEnv.wall_micros();
            let answer = connection.commands.ask(&redis::cmd("TIME")).await?;
            let after = SystemEnv.wall_micros();
            let parts = reply::list(answer)?;
            let [seconds, micros] = parts.as_slice() else { return Err(not_understood()) };
            let server = reply::number(seconds)?.saturating_mul(1_000_000);
            let server = server.saturating_add(reply::number(micros)?).min(i64::MAX as u64);
            differences.push(server as i64 - (before / 2 + after / 2) as i64);
        }
        let none = || Error::new(ErrorKind::Unavailable, "the connection broke");
        differences.into_iter().max_by_key(|difference| difference.abs()).ok_or_else(none)
    }
}

/// A watermark. If the value is not a token (no script of ours wrote it), no token is left to
/// grant.
fn highest(mark: &Value) -> FencingToken {
    match mark {
        Value::Nil => FencingToken::ZERO,
        mark => reply::token(mark).unwrap_or(FencingToken::MAX),
    }
}

/// The record of a lock.
#[derive(Debug)]
pub(crate) struct LockRecord {
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    /// The lock was released, and is kept for a last while (`at_least`).
    pub(crate) kept: bool,
    pub(crate) label: OwnerLabel,
    /// How many readers share the lock, if it is shared.
    pub(crate) readers: Option<u64>,
}

pub(crate) fn read_record(record: &[u8]) -> Option<LockRecord> {
    let (record, readers) = match std::str::from_utf8(record).ok()?.split_once('\n') {
        Some((record, readers)) => (record, Some(readers.split_whitespace().count() as u64)),
        None => (std::str::from_utf8(record).ok()?, None),
    };
    let mut parts = record.splitn(4, ' ');
    let owner = parts.next()?.parse().ok()?;
    let token = FencingToken::new(parts.next()?.parse().ok()?)?;
    let state = parts.next().filter(|state| ["0", "1", "2"].contains(state))?;
    let label = OwnerLabel::new(parts.next()?).ok()?;
    // Only a lock of readers has a second line.
    (readers.is_some() == (owner == OwnerId::READERS)).then_some(())?;
    Some(LockRecord { owner, token, kept: state == "1", label, readers })
}
