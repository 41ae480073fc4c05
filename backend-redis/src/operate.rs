//! What operators ask.

use std::{collections::BTreeSet, time::Duration};

use lock_core::{
    Cursor, Env as _, Error, ErrorKind, Holder, Init, LockName, LockState, OwnerId, OwnerLabel,
    Page, StoreSettings, SystemEnv,
};
use redis::Value;

use crate::{
    backend::Redis,
    config::check_longest,
    error,
    keys::Bucket,
    reply::{self, Reply, not_understood},
    scripts,
    store::{Agreed, Answer},
};

/// How many keys a part of a listing looks at.
const PART: usize = 200;

impl Redis {
    /// The states of those among `names` that are held or waited for.
    pub(crate) async fn look(
        &self,
        bucket: Bucket,
        names: &[LockName],
    ) -> Result<Vec<LockState>, Error> {
        let mut keys = vec![self.0.keys.epoch(bucket)];
        for name in names {
            keys.extend([self.0.keys.lock(name), self.0.keys.queue(name)]);
        }
        let answer = self.0.run(bucket, &scripts::INSPECT, &keys, &[]).await?;
        let mut answers = reply::list(answer)?;
        let mark = reply::token(&answers.pop().ok_or_else(not_understood)?)?;
        let mut states = Vec::new();
        for (name, answer) in names.iter().zip(answers) {
            let parts = reply::list(answer)?;
            let [record, left, places] = parts.as_slice() else { return Err(not_understood()) };
            let places = reply::number(places)?;
            if let Value::BulkString(record) = record {
                let (owner, token, label) = read_record(record).ok_or_else(not_understood)?;
                let remaining = Duration::from_millis(reply::number(left)?);
                let holder = Some(Holder { owner, label, remaining });
                states.push(LockState::new(name.clone(), holder, token).with_waiting(places));
            } else if places > 0 {
                states.push(LockState::new(name.clone(), None, mark).with_waiting(places));
            }
        }
        Ok(states)
    }

    pub(crate) async fn page(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let cursor = from.unwrap_or_else(|| "0".into());
        if cursor.parse::<u64>().is_err() {
            let message = format!("{cursor:?} is no place in a listing; allowed is a page's next");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let bucket = Bucket::FIRST;
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(self.0.keys.all_locks(bucket)).arg("COUNT").arg(PART);
        let answer = self.0.link(bucket).await?.send(&scan).await?;
        let answer = reply::list(answer.map_err(|error| error::of_command(&error))?)?;
        let [next, found] = answer.as_slice() else { return Err(not_understood()) };
        let next = reply::text(next)?.to_owned();
        let mut names = BTreeSet::new();
        for key in reply::list(found.clone())? {
            if let Value::BulkString(key) = key {
                names.extend(self.0.keys.name_of(bucket, &key));
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        let mut locks =
            if names.is_empty() { Vec::new() } else { self.look(bucket, &names).await? };
        locks.retain(|state| state.holder.is_some());
        Ok(Page { locks, next: (next != "0").then_some(next) })
    }

    pub(crate) async fn set_up(&self, init: &Init) -> Result<StoreSettings, Error> {
        if let Some(longest) = init.longest_lease {
            check_longest(longest)?;
            self.agree_with("longest_lease", self.0.settings.longest_lease, longest)?;
        }
        if let Some(quarantine) = init.quarantine {
            self.agree_with("quarantine", self.0.settings.quarantine, quarantine)?;
        }
        let longest = init.longest_lease.or(self.0.settings.longest_lease);
        let longest = longest.map(|span| span.as_micros().to_string()).unwrap_or_default();
        let quarantine = match init.quarantine.or(self.0.settings.quarantine) {
            Some(true) => "on",
            Some(false) => "off",
            None => "",
        };
        let first: &[u8] = if init.first_use { b"1" } else { b"0" };
        let own = [first, longest.as_bytes(), quarantine.as_bytes()];
        let bucket = Bucket::FIRST;
        let keys = [self.0.keys.epoch(bucket)];
        let set = self.0.run_in_epoch(bucket, &scripts::INIT, &keys, &own, Answer::plain);
        let answer = set.await?;
        let Some(Reply::Set { longest, quarantine, grants_in }) = answer.reply else {
            return Err(not_understood());
        };
        let longest = Duration::from_micros(longest);
        self.0.set_agreed(Agreed { longest, quarantine });
        let mut settings = StoreSettings::new(longest, Some(quarantine));
        settings.grants_in = grants_in;
        Ok(settings)
    }

    /// A random name that the store keeps in its epoch record.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        let fresh = format!("{:032x}", SystemEnv.random());
        let bucket = Bucket::FIRST;
        let keys = [self.0.keys.epoch(bucket)];
        let answer = self.0.run(bucket, &scripts::IDENTITY, &keys, &[fresh.as_bytes()]).await?;
        Ok(format!("redis:{}", reply::text(&answer)?))
    }

    fn agree_with<T: PartialEq + std::fmt::Debug>(
        &self,
        option: &str,
        told: Option<T>,
        wanted: T,
    ) -> Result<(), Error> {
        match told {
            Some(told) if told != wanted => Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "init is to set {option} to {wanted:?}, and this client was told {told:?}; \
                     allowed is the same or a client that was told nothing"
                ),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) async fn clock_difference(&self) -> Result<i64, Error> {
        let before = SystemEnv.wall_micros();
        let answer = self.0.link(Bucket::FIRST).await?.send(&redis::cmd("TIME")).await?;
        let after = SystemEnv.wall_micros();
        let parts = reply::list(answer.map_err(|error| error::of_command(&error))?)?;
        let [seconds, micros] = parts.as_slice() else { return Err(not_understood()) };
        let server = reply::number(seconds)? * 1_000_000 + reply::number(micros)?;
        Ok(server as i64 - (before / 2 + after / 2) as i64)
    }
}

fn read_record(record: &[u8]) -> Option<(OwnerId, lock_core::FencingToken, OwnerLabel)> {
    let mut parts = std::str::from_utf8(record).ok()?.splitn(4, ' ');
    let owner = parts.next()?.parse().ok()?;
    let token = lock_core::FencingToken::new(parts.next()?.parse().ok()?)?;
    Some((owner, token, OwnerLabel::new(parts.nth(1)?).ok()?))
}
