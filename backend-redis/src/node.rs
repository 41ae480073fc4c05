//! One Redis server as a part of a store over several, for backends that build on this one.
//!
//! A [`Node`] provides the connection, the handshake, the epoch record with its quarantine, the
//! settings and the subscription. The caller decides what is stored, and by which scripts. The
//! first call makes the connection, and a call after a break makes a new one.

use std::{fmt, sync::Arc};

use lock_core::{
    ConnectionSecurity, Error, ErrorKind, FencingToken, Init, LockName, OwnerId, StoreSettings,
};
pub use redis::Value;

pub use crate::scripts::reply::{holder, list, not_understood, number, text};
pub use crate::settings::{AgreedSettings as NodeSettings, RECORD_VERSION};

pub use crate::scripts::arguments::declares;
use crate::{
    backend::admin::Admin,
    builder::RedisBuilder,
    connection::{PushListener, identity::Identity},
    guarantees::promises,
    keys::{Bucket, Keys},
    scripts::{
        self, Arguments,
        reply::{Answer, Reply},
    },
    settings::Topology,
    store::Store,
    tunables::LISTED_OF_NODE,
};

/// Receives the messages that a node publishes on this client's channel.
pub trait Listener: fmt::Debug + Send + Sync + 'static {
    /// Whether a subscription is wanted now. The next call that may grant makes it. It is dropped
    /// some time after its last use.
    fn listens(&self) -> bool;

    /// A message arrived on this channel: the client's own channel, or one of [`Node::subscribe`].
    fn on_message(&self, channel: &[u8], message: &[u8]);

    /// Messages may have been missed, since the connection broke or the server changed its role.
    fn missed(&self);
}

/// Passes pushes on to the [`Listener`]. A node has only one bucket.
#[derive(Debug)]
struct NodePushes {
    channel: String,
    listener: Arc<dyn Listener>,
}

impl PushListener for NodePushes {
    fn channel(&self, _: Bucket) -> &str {
        &self.channel
    }

    fn listens(&self, _: Bucket) -> bool {
        self.listener.listens()
    }

    fn on_message(&self, channel: &[u8], message: &[u8]) {
        self.listener.on_message(channel, message);
    }

    fn missed(&self) {
        self.listener.missed();
    }
}

/// A Lua script, sent by its hash.
#[derive(Debug)]
pub struct Script(scripts::Script);

impl Script {
    /// A script, with the parts of scripts of this crate that it includes, and with local variables
    /// for the arguments that it declares (see `scripts/text.rs`).
    ///
    /// One for [`Node::call_in_epoch`] declares `epoch args`. `KEYS[1]` is the epoch record. It
    /// must call `gate` of `scripts/epoch.lua` before it grants, and answer with its refusal.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self(scripts::Script::new(source))
    }

    /// The script under the heading `-- part: NAME` of a file.
    #[must_use]
    pub fn part(file: &str, name: &str) -> Self {
        Self::new(&scripts::part(file, name).unwrap_or_default())
    }

    /// The whole text, as the server gets it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

fn as_sent(arguments: &[&[u8]]) -> Arguments {
    arguments.iter().copied().collect()
}

/// The run id of a server. Two nodes with the same run id are the same server.
#[derive(Clone, Debug)]
pub struct RunId(Arc<Identity>);

impl PartialEq for RunId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.run == other.0.run
    }
}

impl RunId {
    /// The id, 40 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.run
    }
}

/// One server. Clones share its connection.
#[derive(Clone)]
pub struct Node(Arc<Store>);

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.address()).finish()
    }
}

/// A node by its URL, as [`RedisBuilder::from_url`]. `also` names the options of the store over
/// several nodes, which the caller has removed from the URL. The error for an unknown option lists
/// them.
///
/// # Errors
/// As [`RedisBuilder::from_url`].
pub fn from_url(url: &str, also: &str) -> Result<RedisBuilder, Error> {
    crate::builder::url::parse(url, also)
}

impl Node {
    /// A node from a builder. `client` is a random number for this client. Does not connect.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed, and for sentinels, a cluster or
    /// `wait_replicas`.
    pub fn new(
        builder: RedisBuilder,
        client: u128,
        listener: Arc<dyn Listener>,
    ) -> Result<Self, Error> {
        builder.settings.check()?;
        if !matches!(builder.settings.topology, Topology::Single(_)) {
            let message = format!(
                "{} is more than one server, and a failover may lose locks; must be one server",
                builder.settings.topology
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        if builder.settings.acknowledgement().is_some() {
            let message = "wait_replicas must be 0 for a node of Redlock";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let keys = Keys::new(&builder.settings.prefix);
        let channel = keys.channel(Bucket::FIRST, client);
        let listener = Arc::new(NodePushes { channel, listener });
        Ok(Self(Arc::new(Store::new(builder.settings, keys, listener))))
    }

    /// How the connection to the node is protected.
    #[must_use]
    pub fn connection_security(&self) -> ConnectionSecurity {
        self.0.settings.topology.security()
    }

    /// Host and port, or the path of the socket, for messages.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.settings.topology.to_string()
    }

    /// The channel to which scripts publish.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.0.listener.channel(Bucket::FIRST)
    }

    /// The keys of a script about one name and one owner: epoch record, lock, queue, entries, and
    /// the owner's tombstone.
    #[must_use]
    pub fn keys(&self, name: &LockName, owner: OwnerId) -> [String; 5] {
        self.0.keys.of(name, owner)
    }

    /// The key of the epoch record.
    #[must_use]
    pub fn epoch_key(&self) -> String {
        self.0.keys.epoch(Bucket::FIRST)
    }

    /// The key of a lock.
    #[must_use]
    pub fn lock_key(&self, name: &LockName) -> String {
        self.0.keys.lock(name)
    }

    /// The keys of a lock and its queue.
    #[must_use]
    pub fn lock_and_queue(&self, name: &LockName) -> [String; 2] {
        [self.0.keys.lock(name), self.0.keys.queue(name)]
    }

    /// The run id of the server on the present connection, if there is one.
    #[must_use]
    pub fn known_run_id(&self) -> Option<RunId> {
        self.0.identity(Bucket::FIRST).map(RunId)
    }

    /// The node's settings as this client knows them.
    #[must_use]
    pub fn agreed_settings(&self) -> NodeSettings {
        self.0.agreed()
    }

    /// Why exclusion is not promised: the node's longest lease is above the one that this client
    /// would give to a node that has lost its settings.
    #[must_use]
    pub fn longest_lease_not_in_url(&self) -> Option<String> {
        let configured = self.0.settings.first_agreed().longest_lease;
        promises::longest_lease_not_in_url(self.0.agreed().longest_lease, configured)
    }

    /// The node's last reported `maxmemory-policy`, if that may remove held locks.
    #[must_use]
    pub fn evicting(&self) -> Option<String> {
        self.0.guarantees.evicting()
    }

    /// Why exclusion is not promised: the node does not describe itself as a Redis does.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        self.0.guarantees.doubt()
    }

    /// Sets the settings that this client would write to a node that has lost its epoch record.
    pub fn set_agreed_settings(&self, settings: NodeSettings) {
        self.0.set_agreed(settings);
    }

    /// Runs a script that grants nothing.
    ///
    /// # Errors
    /// Those of the connection and of the server. `OutcomeUnknown` if the script may have run.
    pub async fn call(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        self.0.run(Bucket::FIRST, &script.0, keys, &as_sent(arguments)).await
    }

    /// Runs a script that may grant, with the arguments that `gate` needs. If `gate` answers that
    /// the client is not up to date, this method deals with it. It returns other answers, such as
    /// `quarantine`.
    ///
    /// # Errors
    /// As [`call`](Self::call); `Config` if the node's settings differ from those of this client.
    pub async fn call_in_epoch(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        let read = |value: Value| -> Result<Answer, Error> {
            if let Value::Array(parts) = &value
                && let Some(word) = parts.first()
                && matches!(text(word), Ok("stale" | "settings"))
            {
                return Answer::plain(value);
            }
            Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) })
        };
        let arguments = as_sent(arguments);
        let answer = self.0.run_in_epoch(Bucket::FIRST, &script.0, keys, &arguments, read).await?;
        match answer.reply {
            Some(Reply::Foreign(value)) => Ok(value),
            _ => Err(not_understood()),
        }
    }

    /// A part of a listing of the names that have a lock's key on this node. Begin with the cursor
    /// `0`, and end when the returned one is `0` again. A name may come twice.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn scan(&self, cursor: u64) -> Result<(u64, Vec<LockName>), Error> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg(self.0.keys.all_locks(Bucket::FIRST))
            .arg("COUNT")
            .arg(LISTED_OF_NODE);
        let answer = list(self.0.connection(Bucket::FIRST).await?.commands.ask(&scan).await?)?;
        let [next, found] = answer.as_slice() else { return Err(not_understood()) };
        let mut names = Vec::new();
        for key in list(found.clone())? {
            if let Value::BulkString(key) = key {
                names.extend(self.0.keys.name_of(Bucket::FIRST, &key));
            }
        }
        Ok((number(next)?, names))
    }

    /// Creates or changes the node's settings.
    ///
    /// # Errors
    /// As [`Backend::init`](lock_core::Backend::init).
    pub async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        Admin(&self.0).set_up(init).await
    }

    /// Makes sure that messages of this channel arrive, also if the connection broke after the last
    /// call.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn subscribe(&self, channel: &str) -> Result<(), Error> {
        self.0.connection(Bucket::FIRST).await?.listening.subscribe_to(channel).await
    }

    /// Ends the subscriptions to channels that are no longer `needed`.
    pub async fn unsubscribe(&self, needed: impl Fn(&str) -> bool) {
        if let Some(connection) = self.0.pool.current(Bucket::FIRST) {
            connection.listening.unsubscribe_from(needed).await;
        }
    }

    /// A random name of the node, kept in its epoch record.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn identity(&self) -> Result<String, Error> {
        Admin(&self.0).name_of_store().await
    }

    /// The node's watermark.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn highest_mark(&self) -> Result<FencingToken, Error> {
        Admin(&self.0).highest_mark().await
    }

    /// The quarantine of the node, if one runs.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn quarantine(&self) -> Result<Option<lock_core::Quarantined>, Error> {
        Admin(&self.0).quarantine().await
    }

    /// How far the node's clock is ahead of this machine's, in microseconds.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn clock_difference(&self) -> Result<i64, Error> {
        Admin(&self.0).clock_difference().await
    }

    /// Drops the connection, and makes no new one.
    pub fn close(&self) {
        self.0.close();
    }
}
