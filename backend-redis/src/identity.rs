//! What the server says of itself on a connection.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

/// The part of INFO that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) run: String,
    pub(crate) replid: String,
    pub(crate) role: String,
    /// It is a node of a cluster.
    pub(crate) clustered: bool,
    pub(crate) replicas: u64,
    /// How many replicas are in touch, where the server refuses writes with too few.
    pub(crate) good_replicas: Option<u64>,
    /// Its `maxmemory-policy`, if that may remove held locks.
    pub(crate) evicting: Option<String>,
    /// What CONFIG GET tells of failover, as far as it may be asked.
    pub(crate) limits: Limits,
}

/// The settings that end the writes of a master that is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// `min-replicas-to-write`
    pub(crate) to_write: Option<u64>,
    /// `min-replicas-max-lag`
    pub(crate) max_lag: Option<Duration>,
    /// `cluster-node-timeout`
    pub(crate) node_timeout: Option<Duration>,
}

impl Limits {
    /// Reads the answers to CONFIG GET: names and values in turn.
    pub(crate) fn read(&mut self, answer: &[String]) {
        for pair in answer.chunks_exact(2) {
            let value = pair[1].parse().ok();
            match pair[0].as_str() {
                "min-replicas-to-write" => self.to_write = value,
                "min-replicas-max-lag" => self.max_lag = value.map(Duration::from_secs),
                "cluster-node-timeout" => self.node_timeout = value.map(Duration::from_millis),
                _ => {}
            }
        }
    }
}

impl Identity {
    /// Reads the sections `server`, `replication` and `memory`.
    pub(crate) fn read(info: &str) -> Result<Self, Error> {
        if field(info, "redis_mode") == Some("sentinel") {
            let message = "the server is a sentinel; use redis+sentinel:// with the master's name";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let missing = || Error::new(ErrorKind::Config, "INFO shows no run id; is this a Redis?");
        Ok(Self {
            run: field(info, "run_id").ok_or_else(missing)?.to_owned(),
            replid: field(info, "master_replid").ok_or_else(missing)?.to_owned(),
            role: field(info, "role").unwrap_or_default().to_owned(),
            clustered: field(info, "redis_mode") == Some("cluster"),
            replicas: number(info, "connected_slaves").unwrap_or_default(),
            good_replicas: number(info, "min_slaves_good_slaves"),
            evicting: field(info, "maxmemory_policy")
                .filter(|policy| *policy != "noeviction")
                .map(str::to_owned),
            limits: Limits::default(),
        })
    }
}

impl Identity {
    /// Whether there are replicas, or there should be.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicas > 0 || self.good_replicas.is_some()
    }
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
        let info = "# Server\r\nrun_id:ab\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_replid:cd\r\nmaster_replid2:00\r\n";
        let identity = Identity::read(info).unwrap();
        assert_eq!((identity.run.as_str(), identity.replid.as_str()), ("ab", "cd"));
        assert_eq!((identity.replicas, identity.good_replicas), (1, None));
        assert!(Identity::read("run_id:ab").is_err());
    }
}
