//! Finds the master that sentinels watch.
//!
//! The client asks every sentinel, and of the answers it believes the one with the newest
//! configuration: an isolated sentinel still names the old master. The answer only says where to
//! ask. The handshake shows whether the server is a master.

use std::{
    fmt,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{Error, ErrorKind, Mutex};
use redis::{AsyncConnectionConfig, ProtocolVersion, Value};
use tokio::time::{Instant, timeout_at};

use crate::settings::SentinelGroup;
use crate::tunables::{OTHER_ANSWERS, SENTINEL_TIMEOUT};
use crate::{
    connection::{error, socket::Socket},
    settings::{Address, Settings},
};

/// The answer of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MasterReport {
    epoch: u64,
    address: Address,
}

/// Asks the sentinels, on connections that stay open.
pub(crate) struct Watch {
    group: SentinelGroup,
    /// TLS and time limits are those for the data servers.
    settings: Settings,
    connections: Box<[Mutex<Option<Arc<Socket>>>]>,
    /// The newest of the sentinels' answers, or a later answer with a newer configuration.
    known: Mutex<Option<MasterReport>>,
    next: AtomicUsize,
    closed: AtomicBool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(group: &SentinelGroup, settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            connections: group.sentinels.iter().map(|_| Mutex::default()).collect(),
            group: group.clone(),
            settings: settings.clone(),
            known: Mutex::default(),
            next: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// The master's address, from all sentinels that answer.
    pub(crate) async fn locate(&self) -> Result<Address, Error> {
        let count = self.group.sentinels.len();
        let mut asked: FuturesUnordered<_> =
            (0..count).map(|at| self.ask(at, self.settings.timeout)).collect();
        let mut best: Option<MasterReport> = None;
        let mut failure = None;
        loop {
            let answer = match best {
                None => asked.next().await,
                Some(_) => tokio::time::timeout(OTHER_ANSWERS, asked.next()).await.ok().flatten(),
            };
            match answer {
                Some(Ok(report)) if best.as_ref().is_none_or(|best| report.epoch > best.epoch) => {
                    best = Some(report);
                }
                Some(Ok(_)) => {}
                // An error that an operator must correct says more than a sentinel that is down.
                Some(Err(error)) => match &failure {
                    Some(known) if !Error::is_retryable(known) => {}
                    _ => failure = Some(error),
                },
                None => break,
            }
        }
        let failed = || {
            let none = || Error::new(ErrorKind::Unavailable, "no sentinel answered");
            failure.unwrap_or_else(none)
        };
        let report = best.ok_or_else(failed)?;
        // Even if the number is lower than before: a sentinel that starts to watch a master begins
        // from 0.
        *self.known() = Some(report.clone());
        Ok(report.address)
    }

    fn known(&self) -> MutexGuard<'_, Option<MasterReport>> {
        self.known.lock()
    }

    /// Whether the master has moved away from `address`. Asks one sentinel that answers, and begins
    /// with another sentinel each time.
    pub(crate) async fn has_left(&self, address: &Address) -> bool {
        let (first, count) =
            (self.next.fetch_add(1, Ordering::Relaxed), self.group.sentinels.len());
        let mut answer = None;
        for step in 0..count {
            let limit = self.settings.timeout.min(SENTINEL_TIMEOUT);
            answer = self.ask(first.wrapping_add(step) % count, limit).await.ok();
            if answer.is_some() {
                break;
            }
        }
        let mut known = self.known();
        // With the same number it is the same master, perhaps under another name.
        if let Some(report) = answer
            && known.as_ref().is_none_or(|known| report.epoch > known.epoch)
        {
            *known = Some(report);
        }
        known.as_ref().is_some_and(|known| known.address != *address)
    }

    fn slot(&self, at: usize) -> MutexGuard<'_, Option<Arc<Socket>>> {
        self.connections[at].lock()
    }

    /// Drops all connections, and makes no new ones.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.distrust();
    }

    /// Drops all connections. The next question to a sentinel makes a new one.
    pub(crate) fn distrust(&self) {
        for at in 0..self.connections.len() {
            *self.slot(at) = None;
        }
    }

    async fn ask(&self, at: usize, limit: Duration) -> Result<MasterReport, Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, error::CLOSED));
        }
        let by = Instant::now() + limit;
        let answer = timeout_at(by, self.exchange(at, by)).await;
        let answer = answer.unwrap_or_else(|_| {
            let shown = humantime::format_duration(limit);
            let message = format!("no answer of a sentinel within {shown}");
            Err(Error::new(ErrorKind::Unavailable, message))
        });
        if answer.as_ref().is_err_and(Error::is_retryable) {
            *self.slot(at) = None;
        }
        answer.map_err(|error| error.on_server(&self.group.sentinels[at]))
    }

    async fn exchange(&self, at: usize, by: Instant) -> Result<MasterReport, Error> {
        let known = self.slot(at).clone();
        let connection = match known {
            Some(connection) => connection,
            None => Arc::new(self.dial(at, by).await?),
        };
        *self.slot(at) = Some(Arc::clone(&connection));
        // `close` came before this connection was stored.
        if self.closed.load(Ordering::SeqCst) {
            *self.slot(at) = None;
        }
        let mut question = redis::pipe();
        // During a failover the first command already names the new master; the second has the
        // number of its configuration.
        question.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.group.master);
        question.cmd("SENTINEL").arg("MASTER").arg(&self.group.master);
        let answers = connection.send_all(&question).await;
        let answers = answers.map_err(|error| error::of_connecting(&error))?;
        self.read(answers)
    }

    async fn dial(&self, at: usize, by: Instant) -> Result<Socket, Error> {
        // A sentinel pushes nothing and serves no locks, so the older protocol is enough.
        let login = self.settings.sentinel_login.ask(ProtocolVersion::RESP2, by).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let address = &self.group.sentinels[at];
        let opened = Socket::open(&self.settings, address, &login, config).await;
        opened.map_err(|error| error::of_connecting(&error))
    }

    fn read(&self, answers: Vec<Value>) -> Result<MasterReport, Error> {
        let mut answers = answers.into_iter().map(Value::extract_error);
        let (Some(address), Some(state)) = (answers.next(), answers.next()) else {
            return Err(not_understood());
        };
        let address = address.map_err(|error| error::of_connecting(&error))?;
        if address == Value::Nil {
            return Err(self.unknown_master());
        }
        let state = state.map_err(|error| error::of_connecting(&error))?;
        let (host, port, epoch) = read_report(address, state)?;
        let address = match self.group.sentinels[0] {
            Address::Tls(..) => Address::Tls(host, port),
            _ => Address::Tcp(host, port),
        };
        Ok(MasterReport { epoch, address })
    }

    fn unknown_master(&self) -> Error {
        let message = format!(
            "the sentinels watch no master named {:?}; must be a name of `sentinel monitor`",
            self.group.master
        );
        Error::new(ErrorKind::Config, message)
    }
}

/// The master's host and port, and the number of its configuration.
pub(crate) fn read_report(address: Value, state: Value) -> Result<(String, u16, u64), Error> {
    let (host, port) = redis::from_redis_value(address).map_err(|_| not_understood())?;
    let state: Vec<String> = redis::from_redis_value(state).map_err(|_| not_understood())?;
    let epoch = state.chunks(2).find(|pair| pair[0] == "config-epoch");
    let epoch = epoch.and_then(|pair| pair.get(1)?.parse().ok()).ok_or_else(not_understood)?;
    Ok((host, port, epoch))
}

fn not_understood() -> Error {
    Error::new(ErrorKind::Config, "a sentinel's answer was not understood; is it a sentinel?")
}
