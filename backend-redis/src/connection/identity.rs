//! The server's description of itself, from INFO and CONFIG GET.

use std::{collections::HashMap, time::Duration};

use lock_core::{Error, ErrorKind};

/// The part of INFO that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) run: String,
    pub(crate) replid: String,
    pub(crate) role: String,
    /// Whether it is a node of a cluster.
    pub(crate) clustered: bool,
    pub(crate) replicas: u64,
    /// Whether it keeps a backlog for replicas. Then it had a replica in the last hour
    /// (`repl-backlog-ttl`), which may return or be promoted.
    pub(crate) backlog: bool,
    /// How many replicas are connected, if the server refuses writes with too few.
    pub(crate) good_replicas: Option<u64>,
    /// Its `maxmemory-policy`, if that may remove held locks.
    pub(crate) evicting: Option<String>,
    /// The settings for failover from CONFIG GET, as far as the user may read them.
    pub(crate) limits: Limits,
    /// Whether the user may read and load the store's witness. `None` if the store keeps none.
    pub(crate) witness: Option<bool>,
    /// Why nothing is promised: INFO lacks a field, or has a value that no Redis has.
    pub(crate) doubt: Option<String>,
}

/// The settings that limit what a failover or a crash may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// `min-replicas-to-write`
    pub(crate) to_write: Option<u64>,
    /// `min-replicas-max-lag`
    pub(crate) max_lag: Option<Duration>,
    /// `cluster-node-timeout`
    pub(crate) node_timeout: Option<Duration>,
    /// Whether each write is flushed before it is answered: `appendonly yes`, `appendfsync always`
    /// and `no-appendfsync-on-rewrite no`.
    pub(crate) flushes: Option<bool>,
    /// `repl-backlog-ttl`: how long the server remembers that it had a replica. Zero: for ever.
    pub(crate) backlog_ttl: Option<Duration>,
}

impl Limits {
    /// Reads the answer to CONFIG GET.
    pub(crate) fn read(answer: &HashMap<String, String>) -> Self {
        let value = |name| answer.get(name)?.parse().ok();
        let flushes =
            [("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")]
                .map(|(name, wanted)| answer.get(name).map(|value| value == wanted));
        Self {
            to_write: value("min-replicas-to-write"),
            max_lag: value("min-replicas-max-lag").map(Duration::from_secs),
            node_timeout: value("cluster-node-timeout").map(Duration::from_millis),
            flushes: flushes.into_iter().reduce(|one, two| Some(one? && two?)).flatten(),
            backlog_ttl: value("repl-backlog-ttl").map(Duration::from_secs),
        }
    }
}

impl Identity {
    /// Reads the sections `server`, `replication` and `memory`.
    pub(crate) fn read(info: &str) -> Result<Self, Error> {
        // Valkey's name for it since 8.0.
        let mode = field(info, "redis_mode").or_else(|| field(info, "server_mode"));
        if mode == Some("sentinel") {
            let message = "the server is a sentinel; use redis+sentinel:// with the master's name";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let needed = |name| field(info, name).ok_or_else(|| missing(name));
        check_version(needed("redis_version")?)?;
        Ok(Self {
            run: id(info, "run_id")?,
            replid: id(info, "master_replid")?,
            role: needed("role")?.to_owned(),
            clustered: mode == Some("cluster"),
            // If INFO does not say, there may be a replica.
            replicas: number(info, "connected_slaves").unwrap_or(1),
            backlog: field(info, "repl_backlog_active") != Some("0"),
            good_replicas: number(info, "min_slaves_good_slaves"),
            evicting: field(info, "maxmemory_policy")
                .filter(|policy| *policy != "noeviction")
                .map(str::to_owned),
            limits: Limits::default(),
            witness: None,
            doubt: doubt(info),
        })
    }
}

/// The fields of INFO by which a promise holds. A proxy may leave one out.
const NEEDED_FOR_A_PROMISE: [&str; 3] =
    ["maxmemory_policy", "connected_slaves", "repl_backlog_active"];

fn missing(name: &str) -> Error {
    let message =
        format!("INFO shows no {name}; must be a Redis or a Valkey, with no proxy before it");
    Error::new(ErrorKind::Config, message)
}

/// The id of a run, or of the data. Scripts compare it, so it must have their form.
fn id(info: &str, name: &str) -> Result<String, Error> {
    let id = field(info, name).ok_or_else(|| missing(name))?;
    if !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(id.to_owned());
    }
    let message = format!("INFO shows the {name} {id:?}; must be hexadecimal digits");
    Err(Error::new(ErrorKind::Config, message))
}

/// Why nothing can be promised.
fn doubt(info: &str) -> Option<String> {
    let lacking = NEEDED_FOR_A_PROMISE.into_iter().find(|name| field(info, name).is_none());
    if let Some(name) = lacking {
        return Some(format!(
            "INFO shows no {name}, so what it says is not known; connect to the server itself, with no proxy between"
        ));
    }
    ["run_id", "master_replid"].into_iter().find_map(|name| {
        let id = field(info, name)?;
        let random = id.len() == 40 && id.bytes().any(|digit| digit != id.as_bytes()[0]);
        (!random).then(|| {
            format!(
                "INFO shows the {name} {id}, which is not random, so that a restart or a failover may go unnoticed; \
                 connect to the server itself, with no proxy between"
            )
        })
    })
}

impl Identity {
    /// Whether there are replicas, or were, or should be.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicas > 0 || self.backlog || self.good_replicas.is_some()
    }
}

/// Refuses a server before Redis 7.0: in it a script may write although too few replicas are
/// connected (`min-replicas-to-write`, redis/redis#9993). All versions of Valkey report 7.2.4.
fn check_version(version: &str) -> Result<(), Error> {
    let major = version.split('.').next().and_then(|number| number.parse::<u32>().ok());
    if major >= Some(7) {
        return Ok(());
    }
    let message = format!(
        "the server says redis_version {version}; must be 7.0 or later (Redis 7.0, Valkey 7.2)"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// One field of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

fn number(info: &str, name: &str) -> Option<u64> {
    field(info, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_redis_writes() {
        let (run, replid) = ("0ab".repeat(13) + "1", "0cd".repeat(13) + "2");
        let info = format!(
            "# Server\r\nredis_version:7.0.0\r\nrun_id:{run}\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
             master_replid:{replid}\r\nmaster_replid2:00\r\nrepl_backlog_active:0\r\nmaxmemory_policy:noeviction\r\n"
        );
        let identity = Identity::read(&info).unwrap();
        assert_eq!((&identity.run, &identity.replid), (&run, &replid));
        assert_eq!((identity.replicas, identity.good_replicas), (1, None));
        assert_eq!((identity.backlog, identity.doubt), (false, None));

        for name in ["redis_version", "run_id", "role", "master_replid"] {
            let error = Identity::read(&info.replace(&format!("{name}:"), "x:")).unwrap_err();
            assert!(error.to_string().contains(&format!("no {name}")), "{error}");
        }
        for (text, other, named) in [
            ("maxmemory_policy", "x", "maxmemory_policy"),
            ("connected_slaves", "x", "connected_slaves"),
            ("repl_backlog_active", "x", "repl_backlog_active"),
            (&*run, &"0".repeat(40), "run_id"),
            (&*replid, &"f".repeat(40), "master_replid"),
            (&*run, "0ab", "run_id"),
        ] {
            let identity = Identity::read(&info.replacen(text, other, 1)).unwrap();
            let why = identity.doubt.clone().unwrap_or_default();
            assert!(why.contains(named), "{text} {other}: {why:?}");
            assert!(identity.is_replicated());
        }
        assert!(Identity::read(&info.replace(&run, "a b")).is_err());
    }

    #[test]
    fn an_old_version_is_refused_and_a_mode_is_read_under_both_names() {
        let read = |version: &str, mode: &str| {
            Identity::read(&format!(
                "redis_version:{version}\r\n{mode}\r\nrun_id:ab\r\nrole:master\r\nmaster_replid:cd\r\n"
            ))
        };
        for version in ["6.2.14", "6.9.9", "5.0.3", "x", ""] {
            let error = read(version, "").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{version}");
            assert!(error.to_string().contains("must be 7.0 or later"), "{error}");
        }
        for version in ["7.0.0", "7.2.4", "8.6.1", "255.255.255"] {
            assert!(!read(version, "redis_mode:standalone").unwrap().clustered);
        }
        for name in ["redis_mode", "server_mode"] {
            assert!(read("7.2.4", &format!("{name}:cluster")).unwrap().clustered);
            assert!(read("7.2.4", &format!("{name}:sentinel")).is_err());
        }
    }
}
