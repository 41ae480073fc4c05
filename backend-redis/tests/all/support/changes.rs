//! An operator changes settings while a lock is held, and data are lost before, between or after.
//! One table for a single Redis and for Redlock.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Env as _, Error, ErrorKind, FencingToken, Grant, Init, Instant, LockName,
    OwnerId, OwnerLabel, Renewal, Request, SystemEnv, drift_margin,
};
use servers::{Data, Redis, RedisOptions, Server as _};

/// The stores' longest lease at the start, and the lease of the holder.
const LONG: Duration = Duration::from_secs(3);
/// The value to which it is lowered.
const SHORT: Duration = Duration::from_millis(400);
/// The value to which it is raised.
const LONGER: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

const TOLD: &str = "longest_lease=3s&quarantine=on";
const TOLD_OFF: &str = "longest_lease=3s&quarantine=off";
const TOLD_LONG: &str = "longest_lease=3s";
const TOLD_SHORT: &str = "longest_lease=400ms";
const TOLD_LONGER: &str = "longest_lease=1m";
const TOLD_LONGER_OFF: &str = "longest_lease=1m&quarantine=off";
const TOLD_NOTHING: &str = "";

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An operator sets the longest lease.
    Longest(Duration),
    /// An operator with these options turns the quarantine on or off.
    Quarantine(bool, &'static str),
    /// The store grants again, and the holder has renewed ever since.
    Granting,
    /// All servers restart without data.
    Lose,
    /// A client with these options makes an attempt for another name.
    Asks(&'static str),
}
use Step::{Asks, Granting, Longest, Lose, Quarantine};

struct Case {
    what: &'static str,
    /// Longest lease and quarantine at the first use. The holder's lease is as long.
    first: (Duration, bool),
    /// What happens while the lock is held.
    steps: &'static [Step],
    /// The options of the client that asks for the lock at the end.
    asks: &'static str,
    /// Whether exclusion is promised then, and so must hold.
    promised: bool,
}

const CASES: &[Case] = &[
    Case {
        what: "lowered, then lost",
        first: (LONG, true),
        steps: &[Longest(SHORT), Granting, Lose],
        asks: TOLD_SHORT,
        promised: true,
    },
    Case {
        what: "lowered, then lost while the old one is waited out",
        first: (LONG, true),
        steps: &[Longest(SHORT), Lose],
        asks: TOLD,
        promised: true,
    },
    Case {
        what: "raised, then lost while the new one is waited out",
        first: (LONG, true),
        steps: &[Longest(LONGER), Lose],
        asks: TOLD_LONGER,
        promised: true,
    },
    Case {
        what: "raised and told, then lost",
        first: (LONGER, true),
        steps: &[Lose],
        asks: TOLD_LONGER,
        promised: true,
    },
    Case {
        what: "raised and not told, then lost",
        first: (LONGER, true),
        steps: &[Lose],
        asks: TOLD_NOTHING,
        promised: false,
    },
    Case {
        what: "lost, then turned on",
        first: (LONG, false),
        steps: &[Lose, Quarantine(true, TOLD_LONG)],
        asks: TOLD,
        promised: true,
    },
    Case {
        what: "lost, asked for, then turned on",
        first: (LONG, false),
        steps: &[Lose, Asks(TOLD_OFF), Quarantine(true, TOLD_LONG)],
        asks: TOLD,
        promised: true,
    },
    Case {
        what: "turned off, lost, asked for, turned on",
        first: (LONG, true),
        steps: &[Quarantine(false, TOLD_LONG), Lose, Asks(TOLD_OFF), Quarantine(true, TOLD_LONG)],
        asks: TOLD,
        promised: true,
    },
    Case {
        what: "turned off, lowered and turned on, then lost",
        first: (LONG, true),
        steps: &[
            Quarantine(false, TOLD_LONG),
            Longest(SHORT),
            Quarantine(true, TOLD_SHORT),
            Granting,
            Lose,
        ],
        asks: TOLD_SHORT,
        promised: true,
    },
    Case {
        what: "turned off, lost, asked for",
        // So long that the holder still believes in its lock, however slow the machine is.
        first: (LONGER, true),
        steps: &[Quarantine(false, TOLD_LONGER), Lose, Asks(TOLD_LONGER_OFF)],
        asks: TOLD_LONGER_OFF,
        promised: false,
    },
];

pub(crate) type Connecting = Pin<Box<dyn Future<Output = Arc<dyn Backend>> + Send>>;

/// Connects a client to these servers with these options.
pub(crate) type Connect = fn(&[Redis], &str) -> Connecting;

/// Tries all cases, with this many servers.
pub(crate) async fn try_all(servers: usize, connect: Connect) {
    let tried = join_all(CASES.iter().map(|case| case.fails(servers, connect))).await;
    let failed: Vec<_> = tried.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn request(text: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let (name, label) = (LockName::new(text).unwrap(), OwnerLabel::new("test").unwrap());
    Request::new(name, owner, label, lease, SystemEnv.now())
}

/// The holder's lock, and the end of its validity.
struct Holder {
    store: Arc<dyn Backend>,
    grant: Grant,
    until: Instant,
}

impl Holder {
    fn believe(&mut self, from: Instant, lease: Duration) {
        let until = from + lease - drift_margin(lease) - self.grant.margin;
        self.until = self.until.max(until);
    }

    async fn renew(&mut self) {
        if let Renewal::Renewed { from, lease } =
            self.store.renew(&[&self.grant], SystemEnv.now()).await.remove(0)
        {
            self.believe(from, lease);
        }
    }
}

impl Case {
    /// What is wrong, if anything is.
    async fn fails(&self, servers: usize, connect: Connect) -> Option<String> {
        let mut servers = Redis::start_many(servers, RedisOptions::new()).await.unwrap();
        let store = connect(&servers, TOLD_NOTHING).await;
        let (longest, on) = self.first;
        let init = Init::new().with_first_use(true).with_longest_lease(longest).with_quarantine(on);
        store.init(&init).await.unwrap();
        let wanted = request("a", longest);
        let grant = loop {
            match store.try_acquire(&wanted).await {
                Ok(Attempt::Granted(grant)) => break grant,
                // On a busy machine a client may know its nodes' clocks too roughly at first.
                Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
                other => panic!("{}: the lock was free: {other:?}", self.what),
            }
        };
        let mut holder = Holder { store, until: grant.from, grant };
        holder.believe(holder.grant.from, holder.grant.lease);
        for step in self.steps {
            Self::take(*step, &mut servers, connect, &mut holder).await;
        }
        let next = connect(&servers, self.asks).await;
        let mut promised = next.guarantees().exclusion.holds();
        if self.asks == TOLD_NOTHING {
            // A client that connects now cannot know what was lost. A client that connected before
            // can.
            promised = holder.store.guarantees().exclusion.holds();
        }
        let wait = eventually(&*next, "a").await;
        let second = SystemEnv.now() + wait;
        let (what, early) = (self.what, holder.until.since(second));
        if promised != self.promised {
            return Some(format!("{what}: exclusion is promised: {promised}"));
        }
        (early.is_zero() != promised)
            .then(|| format!("{what}: granted {early:?} before the first holder's time is over"))
    }

    async fn take(step: Step, servers: &mut [Redis], connect: Connect, holder: &mut Holder) {
        match step {
            Longest(longest) => {
                Self::init(&*connect(servers, TOLD_NOTHING).await, Some(longest), None).await;
            }
            Quarantine(on, options) => {
                Self::init(&*connect(servers, options).await, None, Some(on)).await;
            }
            Granting => {
                let store = connect(servers, TOLD_NOTHING).await;
                while !eventually(&*store, "b").await.is_zero() {
                    holder.renew().await;
                    tokio::time::sleep(PAUSE).await;
                }
                holder.renew().await;
            }
            Lose => {
                join_all(servers.iter_mut().map(|server| server.restart(Data::Lose))).await;
            }
            Asks(options) => {
                eventually(&*connect(servers, options).await, "c").await;
            }
        }
    }

    async fn init(
        operator: &dyn Backend,
        longest_lease: Option<Duration>,
        quarantine: Option<bool>,
    ) {
        let init = Init::new().with_longest_lease(longest_lease).with_quarantine(quarantine);
        operator.init(&init).await.unwrap();
    }
}

/// After how long the store grants a free name.
async fn eventually(store: &dyn Backend, name: &str) -> Duration {
    let asking = async {
        loop {
            match store.try_acquire(&request(name, SHORT)).await {
                Ok(Attempt::Granted(_)) => return Duration::ZERO,
                Ok(Attempt::Quarantined(told)) => return told.remaining,
                Ok(Attempt::Busy(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    tokio::time::timeout(SOON, asking).await.unwrap()
}

/// The answer to an attempt. On a busy machine, too few nodes may vote in time.
async fn answer(store: &dyn Backend, request: &Request) -> Result<Attempt, Error> {
    let asking = async {
        loop {
            match store.try_acquire(request).await {
                Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
    };
    tokio::time::timeout(SOON, asking).await.unwrap()
}

/// Another client sets the watermarks to the limit, and an operator sets the tokens back.
pub(crate) async fn try_used_up_tokens(count: usize, epoch: &str, connect: Connect) {
    let servers = Redis::start_many(count, RedisOptions::new()).await.unwrap();
    let store = connect(&servers, TOLD_NOTHING).await;
    // The old tokens are waited out even if the quarantine is off.
    let first = Init::new().with_first_use(true).with_longest_lease(SHORT).with_quarantine(false);
    store.init(&first).await.unwrap();
    let wanted = request("a", SHORT);
    let Attempt::Granted(held) = answer(&*store, &wanted).await.unwrap() else {
        panic!("the lock was free")
    };
    let highest = store.highest_token().await.unwrap().unwrap();
    assert!(highest >= held.token && highest < FencingToken::MAX, "{highest}");

    let marks = ["mark", "top"].map(str::to_owned).into_iter();
    let marks: Vec<_> = marks.chain((0..1024).map(|at| format!("mark{at}"))).collect();
    let limit = FencingToken::MAX.to_string();
    for server in &servers {
        let fields = marks.iter().flat_map(|mark| [mark.as_str(), &limit]);
        let set: Vec<_> = ["HSET", epoch].into_iter().chain(fields).collect();
        server.cli(&set).await.unwrap();
    }
    assert_eq!(store.highest_token().await.unwrap(), Some(FencingToken::MAX));
    let refused = answer(&*store, &request("b", SHORT)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    let told = refused.to_string();
    assert!(told.contains("tokens are used up") && told.contains("--reset-tokens"), "{told}");

    let both = Init::new().with_reset_tokens(true).with_first_use(true);
    assert_eq!(store.init(&both).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let reset = Init::new().with_reset_tokens(true);
    let settings = store.init(&reset).await.unwrap();
    assert!(!settings.grants_in.is_zero(), "{settings:?}");
    assert_eq!((settings.longest_lease, settings.quarantine), (SHORT, Some(false)));
    let again = async {
        loop {
            match store.try_acquire(&request("b", SHORT)).await {
                Ok(Attempt::Granted(grant)) => return grant,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    let grant = tokio::time::timeout(SOON, again).await.unwrap();
    assert!(grant.token > held.token, "{} after {}", grant.token, held.token);
    assert!(SystemEnv.now() >= held.from + SHORT, "nothing was waited out");
    let highest = store.highest_token().await.unwrap().unwrap();
    assert!(highest >= grant.token && highest < FencingToken::MAX, "{highest}");
}
