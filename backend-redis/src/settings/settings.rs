//! All settings of a client, and their allowed values.

use std::{fmt, time::Duration};

use lock_core::{
    ConnectionSecurity, CredentialsProvider, Error, ErrorKind, StoreSettings, plaintext_refusal,
};
use redis::{ProtocolVersion, RedisConnectionInfo};
use tokio::time::Instant;

use crate::{
    settings::{AgreedSettings, Topology, certificates},
    tunables::{LATE_AFTERS, LONGEST_LEASE, SHORTEST_LEASE, TIMEOUTS, WAIT_TIMEOUT},
};

/// How many replicas must acknowledge grants and renewals, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) replicas: u32,
    pub(crate) within: Duration,
}

/// A user and its password, or a provider of both.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// In place of user and password.
    pub(crate) provider: Option<CredentialsProvider>,
}

impl Login {
    fn is_fixed(&self) -> bool {
        self.username.is_some() || self.password.is_some()
    }

    fn is_given(&self) -> bool {
        self.is_fixed() || self.provider.is_some()
    }

    fn has_password(&self) -> bool {
        self.password.is_some() || self.provider.is_some()
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_fixed() && self.provider.is_some() {
            let message = "a user or a password is given, and a provider of credentials, too; needs one of the two";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    /// The login for one connection, in the redis crate's form. The connection must be ready at
    /// `by`.
    pub(crate) async fn ask(
        &self,
        version: ProtocolVersion,
        by: Instant,
    ) -> Result<RedisConnectionInfo, Error> {
        let asked = match &self.provider {
            Some(provider) => Some(provider.ask(by).await?),
            None => None,
        };
        let (username, password) = match &asked {
            Some(asked) => (asked.user(), Some(asked.password())),
            None => (self.username.as_deref(), self.password.as_deref()),
        };
        let mut redis =
            RedisConnectionInfo::default().set_protocol(version).set_skip_set_lib_name();
        if let Some(username) = username {
            redis = redis.set_username(username);
        }
        // Without a password the redis crate would not send the user, and log in as the default
        // user. A user that needs no password is let in with an empty one.
        if let Some(password) = password.or(username.map(|_| "")) {
            redis = redis.set_password(password);
        }
        Ok(redis)
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
    /// Whether the client keeps a witness of its use in the server's script cache. It does if the
    /// store is one plain Redis with this crate's own layout.
    pub(crate) witness: bool,
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
    /// Which acknowledgement the client waits for, if any.
    pub(crate) fn acknowledgement(&self) -> Option<Acknowledgement> {
        let Self { wait_replicas: replicas, wait_timeout, .. } = *self;
        let within = wait_timeout.unwrap_or(WAIT_TIMEOUT);
        (replicas > 0).then_some(Acknowledgement { replicas, within })
    }

    pub(crate) fn first_agreed(&self) -> AgreedSettings {
        AgreedSettings {
            longest_lease: self.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE),
            quarantine: self.quarantine.unwrap_or(true),
        }
    }

    /// # Errors
    /// `InvalidInput` for a setting that is not allowed. The message says what is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Settings { topology, prefix, timeout, longest_lease, roots, identity, .. } = self;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        topology.check()?;
        self.login.check()?;
        self.sentinel_login.check()?;
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
                "prefix {prefix:?} is not allowed; must be 1 to 100 visible ASCII characters \
                 without braces"
            ));
        }
        let show = humantime::format_duration;
        if *timeout < TIMEOUTS.0 || *timeout > TIMEOUTS.1 {
            return refuse(format!(
                "timeout {} is not allowed; must be between {} and {}",
                show(*timeout),
                show(TIMEOUTS.0),
                show(TIMEOUTS.1)
            ));
        }
        match (self.acknowledgement(), self.wait_timeout) {
            (Some(wanted), _) if wanted.within < TIMEOUTS.0 || wanted.within >= *timeout => {
                return refuse(format!(
                    "wait timeout {} is not allowed; must be at least 1ms and less than the timeout, {}",
                    show(wanted.within),
                    show(*timeout)
                ));
            }
            (None, Some(within)) => {
                return refuse(format!(
                    "wait timeout {} is given, and no replica is waited for; needs \
                     wait_replicas of 1 or more",
                    show(within)
                ));
            }
            _ => {}
        }
        let late = self.late_after;
        if late < LATE_AFTERS.0 || late > LATE_AFTERS.1 {
            return refuse(format!(
                "late_after {} is not allowed; must be between {} and {}",
                show(late),
                show(LATE_AFTERS.0),
                show(LATE_AFTERS.1)
            ));
        }
        if let Some(margin) = margin.filter(|margin| *margin > LONGEST_LEASE) {
            return refuse(format!(
                "failover margin {} is not allowed; must be at most {}",
                show(margin),
                show(LONGEST_LEASE)
            ));
        }
        if let Some(longest) = longest_lease {
            check_longest(*longest)?;
        }
        if (roots.is_some() || identity.is_some()) && !topology.tls() {
            return refuse("certificates are for TLS; needs rediss://".into());
        }
        if topology.tls() {
            let provider = certificates::provider()?;
            roots.as_deref().map(certificates::roots).transpose()?;
            identity.as_ref().map(|own| certificates::own(own, &provider)).transpose()?;
        }
        let has_password = self.login.has_password() || self.sentinel_login.has_password();
        if has_password && !self.plaintext && topology.security() == ConnectionSecurity::Plain {
            return Err(plaintext_refusal(
                "TLS (rediss:// for redis://, redlocks:// for redlock://)",
            ));
        }
        Ok(())
    }

    /// The login for a server, on a connection that must be ready at `by`.
    pub(crate) async fn login(
        &self,
        version: ProtocolVersion,
        by: Instant,
    ) -> Result<RedisConnectionInfo, Error> {
        Ok(self.login.ask(version, by).await?.set_db(self.database))
    }
}

pub(crate) fn check_longest(longest: Duration) -> Result<(), Error> {
    if longest < SHORTEST_LEASE || longest > LONGEST_LEASE {
        let show = humantime::format_duration;
        let message = format!(
            "longest lease {} is not allowed; must be between {} and {}",
            show(longest),
            show(SHORTEST_LEASE),
            show(LONGEST_LEASE)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    if !longest.subsec_nanos().is_multiple_of(1_000_000) {
        let message = format!(
            "longest lease {} is not allowed; must be a multiple of 1ms",
            humantime::format_duration(longest)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Refuses a server whose `maxmemory-policy` may remove held locks, unless that is allowed.
pub(crate) fn check_memory_policy(
    evicting: Option<&str>,
    settings: &Settings,
) -> Result<(), Error> {
    let Some(policy) = evicting.filter(|_| !settings.allow_eviction) else {
        return Ok(());
    };
    let message = format!(
        "the server's maxmemory-policy is {policy}, which may remove held locks; must be \
         noeviction, or any with allow_eviction=true"
    );
    Err(Error::new(ErrorKind::Config, message))
}
