//! What a store keeps for all its clients, and the check that it compares before it writes.

use std::{sync::OnceLock, time::Duration};

use lock_core::{
    Env, Error, ErrorKind, OwnerId, StoreSettings, check_record_version, whole_millis,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    keys::{PROBE, SETTINGS},
    record::Nonce,
    store::{CasStore, Object, Put, Version},
    tries::until,
};
use crate::tunables::CLOCK_BOUND;

/// The version of the records that this crate reads and writes.
pub(super) const RECORD_VERSION: u64 = 1;

/// The settings of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) version: u64,
    /// The name of the store: random, so that no other store has it.
    pub(super) identity: OwnerId,
    pub(super) longest_lease_ms: u64,
    pub(super) nonce: Nonce,
}

impl Settings {
    pub(super) fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.longest_lease_ms)
    }

    fn new(env: &dyn Env) -> Self {
        Self {
            version: RECORD_VERSION,
            identity: OwnerId::from_bits(env.random()),
            longest_lease_ms: whole_millis(StoreSettings::DEFAULT_LONGEST_LEASE),
            nonce: Nonce::of(env.random()),
        }
    }
}

/// The object on which a client tries whether the store compares.
#[derive(Debug, Serialize, Deserialize)]
struct Probe {
    /// A version that this object had, and never has again.
    past: Option<String>,
    nonce: Nonce,
}

/// Tries the store, and reads its settings. Refuses another longest lease than the one that this
/// client expects.
pub(super) async fn open(
    store: &dyn CasStore,
    env: &dyn Env,
    expected: Option<Duration>,
) -> Result<Settings, Error> {
    probe(store, env).await?;
    let settings = change(store, env, None).await?;
    let stored = settings.longest_lease();
    let Some(expected) = expected.filter(|expected| *expected != stored) else {
        return Ok(settings);
    };
    let [expected, stored] = [expected, stored].map(humantime::format_duration);
    let message = format!(
        "this client expects a longest lease of {expected}, but the store's is {stored}; `init` \
         changes it"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// Reads the settings, and makes them if they are missing. Changes the longest lease to the given
/// one.
pub(super) async fn change(
    store: &dyn CasStore,
    env: &dyn Env,
    longest_lease_ms: Option<u64>,
) -> Result<Settings, Error> {
    let changed = || async {
        let object = store.get(SETTINGS).await?;
        let mut settings = match &object {
            Some(object) => read(SETTINGS, object)?,
            None => Settings::new(env),
        };
        check_record_version(&settings.version.to_string(), RECORD_VERSION)?;
        let longest = longest_lease_ms.unwrap_or(settings.longest_lease_ms);
        if object.is_some() && settings.longest_lease_ms == longest {
            return Ok(Some(settings));
        }
        (settings.longest_lease_ms, settings.nonce) = (longest, Nonce::of(env.random()));
        let version = object.map(|object| object.version);
        let put = put(store, SETTINGS, &settings, version.as_ref()).await?;
        // Another client was faster, or the answer is about a repeat: the next read says it.
        Ok(matches!(put, Some(Put::Written(_))).then_some(settings))
    };
    until(env, changed).await
}

/// Refuses a store that ignores the conditions of writes, and a clock that is far from the store's.
///
/// An object that was written since the first read says what the store's clock is now. An older one
/// says nothing: a client whose clock is behind would take it for new.
async fn probe(store: &dyn CasStore, env: &dyn Env) -> Result<(), Error> {
    // The version of the first read.
    let first = OnceLock::new();
    let tried = || async {
        loop {
            let object = store.get(PROBE).await?;
            let probe = object.as_ref().map(|object| read::<Probe>(PROBE, object)).transpose()?;
            let modified = object.as_ref().and_then(|object| object.modified_micros);
            let version = object.map(|object| object.version);
            if *first.get_or_init(|| version.clone()) != version {
                check_clock(env.wall_micros(), modified)?;
                if let Some(past) = probe.and_then(|probe| probe.past) {
                    return compares(store, env, &Version(past)).await;
                }
            }
            let past = version.as_ref().map(|version| version.0.clone());
            let probe = Probe { past, nonce: Nonce::of(env.random()) };
            let Some(Put::Written(_)) = put(store, PROBE, &probe, version.as_ref()).await? else {
                return Ok(None);
            };
        }
    };
    until(env, tried).await
}

fn check_clock(now: u64, modified: Option<u64>) -> Result<(), Error> {
    let is_far = |modified: &u64| u128::from(now.abs_diff(*modified)) > CLOCK_BOUND.as_micros();
    let Some(modified) = modified.filter(is_far) else { return Ok(()) };
    let which = if modified < now { "ahead of" } else { "behind" };
    let apart = Duration::from_secs(now.abs_diff(modified) / 1_000_000);
    let [apart, bound] = [apart, CLOCK_BOUND].map(humantime::format_duration);
    let message = format!(
        "the clock of this machine is {apart} {which} the store's; it must be within {bound}, \
         because fencing tokens follow it"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// Two writes that an honest store refuses. `None` if one has no answer.
async fn compares(
    store: &dyn CasStore,
    env: &dyn Env,
    past: &Version,
) -> Result<Option<()>, Error> {
    for (expected, condition) in [(Some(past), "If-Match"), (None, "If-None-Match")] {
        let probe = Probe { past: Some(past.0.clone()), nonce: Nonce::of(env.random()) };
        let Some(put) = put(store, PROBE, &probe, expected).await? else { return Ok(None) };
        if put != Put::Refused {
            let message = format!(
                "the store ignores {condition}: it wrote an object on a condition that was false. \
                 Two clients would hold one lock. The store must support conditional writes"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(Some(()))
}

/// Writes on a condition. `None` if the store was busy or its answer was lost: some stores take one
/// write a second to an object. The next read says what became of it, or that the store is down.
async fn put(
    store: &dyn CasStore,
    key: &str,
    content: &(impl Serialize + Sync),
    expected: Option<&Version>,
) -> Result<Option<Put>, Error> {
    match store.put_if(key, encode(content)?, expected).await {
        Err(error) if error.is_retryable() => Ok(None),
        put => put.map(Some),
    }
}

/// The content of an object.
pub(super) fn encode(content: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(content).map_err(|error| {
        Error::new(ErrorKind::Config, "an object cannot be encoded").with_source(error)
    })
}

fn read<T: DeserializeOwned>(key: &str, object: &Object) -> Result<T, Error> {
    serde_json::from_slice(&object.bytes).map_err(|error| {
        let message = format!("the object {key} is not of leasehold; choose another prefix");
        Error::new(ErrorKind::Config, message).with_source(error)
    })
}
