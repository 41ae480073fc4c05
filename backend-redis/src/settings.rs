//! What a connection has to know, and what of it is allowed.

use std::{fmt, time::Duration};

use lock_core::{Error, ErrorKind, Link, StoreSettings, plaintext_refusal};
use redis::{ProtocolVersion, RedisConnectionInfo};

use crate::{certificates, guarantees::SHORTEST_LEASE, store::Agreed, topology::Topology};

const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
const WAIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Tombstones live for 60 s: see `TOMB_MS` in scripts/limits.lua.
const LATEST: Duration = Duration::from_secs(50);

/// How many replicas have to acknowledge grants and renewals, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) replicas: u32,
    pub(crate) within: Duration,
}

/// A user and its password.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl Login {
    fn is_given(&self) -> bool {
        self.username.is_some() || self.password.is_some()
    }

    /// The driver's description of the same.
    pub(crate) fn with(&self, version: ProtocolVersion) -> RedisConnectionInfo {
        let mut redis =
            RedisConnectionInfo::default().set_protocol(version).set_skip_set_lib_name();
        if let Some(username) = &self.username {
            redis = redis.set_username(username);
        }
        // Without a password the driver would not send the user either, and be the default one. Who is
        // let in without any is let in with an empty one.
        let nothing = self.username.is_some().then(String::new);
        if let Some(password) = self.password.as_ref().or(nothing.as_ref()) {
            redis = redis.set_password(password);
        }
        redis
    }
}

/// Everything that a connection needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) topology: Topology,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) database: i64,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) longest_lease: Option<Duration>,
    pub(crate) quarantine: Option<bool>,
    pub(crate) allow_eviction: bool,
    pub(crate) failover_margin: Option<Duration>,
    pub(crate) wait_replicas: u32,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) late_after: Duration,
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) plaintext: bool,
}

impl fmt::Debug for Settings {
    /// Without user, password and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("topology", &self.topology)
            .field("database", &self.database)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("longest_lease", &self.longest_lease)
            .field("quarantine", &self.quarantine)
            .field("allow_eviction", &self.allow_eviction)
            .field("failover_margin", &self.failover_margin)
            .field("wait_replicas", &self.wait_replicas)
            .field("wait_timeout", &self.wait_timeout)
            .field("late_after", &self.late_after)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Whose acknowledgement is waited for, if any.
    pub(crate) fn acknowledgement(&self) -> Option<Acknowledgement> {
        let Self { wait_replicas: replicas, wait_timeout, .. } = *self;
        let within = wait_timeout.unwrap_or(WAIT_TIMEOUT);
        (replicas > 0).then_some(Acknowledgement { replicas, within })
    }

    pub(crate) fn first_agreed(&self) -> Agreed {
        Agreed {
            longest: self.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE),
            quarantine: self.quarantine.unwrap_or(true),
        }
    }

    /// # Errors
    /// `InvalidInput` for a setting that is not allowed, and what is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Settings { topology, prefix, timeout, longest_lease, roots, identity, .. } = self;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        topology.check()?;
        if self.sentinel_login.is_given() && !matches!(topology, Topology::Sentinel(_)) {
            return refuse("a login for sentinels is given, and there are none".into());
        }
        if topology.is_cluster() && self.database != 0 {
            return refuse(format!(
                "database {} is not allowed; a cluster has only database 0",
                self.database
            ));
        }
        let margin = self.failover_margin;
        let allowed = |letter: char| letter.is_ascii_graphic() && !"{}".contains(letter);
        if prefix.is_empty() || prefix.len() > 100 || !prefix.chars().all(allowed) {
            return refuse(format!(
                "prefix {prefix:?} is not allowed; allowed are 1 to 100 visible ASCII characters \
                 without braces"
            ));
        }
        let show = humantime::format_duration;
        if *timeout < Duration::from_millis(1) || *timeout > Duration::from_secs(3600) {
            return refuse(format!(
                "timeout {} is not allowed; allowed are 1ms to 1h",
                show(*timeout)
            ));
        }
        match (self.acknowledgement(), self.wait_timeout) {
            (Some(wanted), _)
                if wanted.within < Duration::from_millis(1) || wanted.within >= *timeout =>
            {
                return refuse(format!(
                    "wait timeout {} is not allowed; allowed is 1ms to less than the timeout, {}",
                    show(wanted.within),
                    show(*timeout)
                ));
            }
            (None, Some(within)) => {
                return refuse(format!(
                    "wait timeout {} is given, and nobody is waited for; allowed is with \
                     wait_replicas of 1 or more",
                    show(within)
                ));
            }
            _ => {}
        }
        let late = self.late_after;
        if late < Duration::from_millis(10) || late > LATEST {
            return refuse(format!(
                "late_after {} is not allowed; allowed are 10ms to {}",
                show(late),
                show(LATEST)
            ));
        }
        if let Some(margin) = margin.filter(|margin| *margin > LONGEST) {
            return refuse(format!(
                "failover margin {} is not allowed; allowed is up to {}",
                show(margin),
                show(LONGEST)
            ));
        }
        if let Some(longest) = longest_lease {
            check_longest(*longest)?;
        }
        if (roots.is_some() || identity.is_some()) && !topology.tls() {
            return refuse("certificates are for TLS; allowed is rediss:// with them".into());
        }
        if topology.tls() {
            let provider = certificates::provider()?;
            roots.as_deref().map(certificates::roots).transpose()?;
            identity.as_ref().map(|own| certificates::own(own, &provider)).transpose()?;
        }
        let has_password = self.login.password.is_some() || self.sentinel_login.password.is_some();
        if has_password && !self.plaintext && topology.link() == Link::Plain {
            return Err(plaintext_refusal(
                "TLS (rediss:// for redis://, redlocks:// for redlock://)",
            ));
        }
        Ok(())
    }

    /// How to log in to a server.
    pub(crate) fn login(&self, version: ProtocolVersion) -> RedisConnectionInfo {
        self.login.with(version).set_db(self.database)
    }
}

pub(crate) fn check_longest(longest: Duration) -> Result<(), Error> {
    if longest < SHORTEST_LEASE || longest > LONGEST {
        let show = humantime::format_duration;
        let message = format!(
            "longest lease {} is not allowed; allowed are {} to {}",
            show(longest),
            show(SHORTEST_LEASE),
            show(LONGEST)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    if !longest.subsec_nanos().is_multiple_of(1_000_000) {
        let message = format!(
            "longest lease {} is not allowed; allowed are multiples of 1ms",
            humantime::format_duration(longest)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}
