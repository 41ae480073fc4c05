//! The scripts, with their arguments.

use std::sync::LazyLock;

use backend_redis::node::{Node, Script, Value};
use lock_core::{Error, LockName, OwnerId};

use super::layout::{Keys, Layout};

macro_rules! scripts {
    ($($name:ident $file:literal;)*) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("shared.lua"), include_str!($file)))
        });)*
    };
}

scripts! {
    ABANDON "abandon.lua";
    ACQUIRE "acquire.lua";
    FORCE "force.lua";
    INSPECT "inspect.lua";
    RAISE "raise.lua";
    RELEASE "release.lua";
    RENEW "renew.lua";
}

/// The lock of a name, with everything that the scripts need.
pub(super) struct Lock<'a> {
    pub(super) node: &'a Node,
    pub(super) layout: &'a Layout,
    pub(super) keys: Keys,
    name: &'a LockName,
}

impl<'a> Lock<'a> {
    pub(super) fn new(
        node: &'a Node,
        layout: &'a Layout,
        name: &'a LockName,
    ) -> Result<Self, Error> {
        Ok(Self { node, layout, keys: layout.keys(name)?, name })
    }

    /// Runs a script for one owner.
    pub(super) async fn run(
        &self,
        script: &Script,
        owner: OwnerId,
        own: &[&str],
    ) -> Result<Value, Error> {
        let [epoch, note, run, _, tombstone] = self.node.keys(self.name, owner);
        let Keys { lock, token, signals, .. } = self.keys.clone();
        let mut keys = vec![epoch, note, run, token, tombstone, lock];
        keys.extend(signals);
        call(self.node, self.layout, script, &keys, own).await
    }

    /// How waiters are woken, in the words of the scripts: the method, the channel and the message.
    pub(super) fn wake(&self) -> [&str; 3] {
        match (&self.keys.channel, &self.keys.signals) {
            (Some((channel, message)), _) => [self.layout.publish_word(), channel, message],
            (None, Some(_)) => ["list", "", "1"],
            (None, None) => ["none", "", ""],
        }
    }
}

/// Runs a script on these keys. Its first own argument is the layout's type of record.
pub(super) async fn call(
    node: &Node,
    layout: &Layout,
    script: &Script,
    keys: &[String],
    own: &[&str],
) -> Result<Value, Error> {
    let mut arguments = vec![layout.record.word().as_bytes()];
    arguments.extend(own.iter().map(|argument| argument.as_bytes()));
    node.call_in_epoch(script, keys, &arguments).await
}
