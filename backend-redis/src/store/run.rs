//! Runs scripts on the server that serves their bucket.

use std::sync::Arc;

use lock_core::{Env as _, Error, ErrorKind, LockName, OwnerId, SystemEnv};
use redis::{Cmd, RedisError, Value};

use crate::{
    connection::{Connection, error, handshake::Handshake, is_noscript},
    discovery::{Discovery, redirect::Redirect},
    guarantees::failover::Failover,
    keys::Bucket,
    scripts::{
        self, Arguments, Epoch, Script,
        reply::{Answer, Reply, check_version},
    },
    store::{Store, unreadable},
    tunables::{EPOCH_TRIES, FIRST_PAUSE, LONGEST_PAUSE, REDIRECTS},
};

/// What the server refuses, if it is no script: see `UnknownErrors`.
const COMMAND: &str = "command";
const HANDSHAKE: &str = "handshake";

/// The subject of a command, which decides where it goes.
#[derive(Clone, Copy)]
enum About {
    Bucket(Bucket),
    /// The slot of a user's own key.
    Slot(u16),
}

/// The search for the server that takes a command.
struct Route {
    about: About,
    /// The server to which only this command goes, with ASKING.
    ask: Option<Arc<Connection>>,
    redirects: u32,
    /// Whether to wait while a moving slot has some of the keys here and some there.
    waits: bool,
    /// Whether the script renews leases. No renewal relies on a handshake that is too old.
    renews: bool,
}

impl Route {
    fn to(bucket: Bucket) -> Self {
        Self::about(About::Bucket(bucket))
    }

    fn about(about: About) -> Self {
        Self { about, ask: None, redirects: 0, waits: true, renews: false }
    }
}

impl Store {
    async fn connection_for(&self, route: &Route) -> Result<Arc<Connection>, Error> {
        match (&route.ask, route.about) {
            (Some(connection), _) => Ok(Arc::clone(connection)),
            (None, About::Bucket(bucket)) => self.connection(bucket).await,
            // Boxed, here and below, so that a rare case does not make every call large.
            (None, About::Slot(slot)) => Box::pin(self.connection_for_slot(slot)).await,
        }
    }

    async fn connection_for_slot(&self, slot: u16) -> Result<Arc<Connection>, Error> {
        let address = self.located(self.discovery.locate_slot(slot).await)?;
        match self.connection_to(&address, Bucket::FIRST).await {
            // As in a search for a bucket.
            Err(error) if error.is_retryable() && self.discovery.doubt(&address) => {
                let address = self.located(self.discovery.locate_slot(slot).await)?;
                self.connection_to(&address, Bucket::FIRST).await
            }
            other => other,
        }
    }

    /// Follows a refusal to another server. Returns the error itself if it names none. `what` was
    /// refused.
    async fn follow_refusal(
        &self,
        route: &mut Route,
        from: &Connection,
        what: &str,
        refusal: RedisError,
    ) -> Result<(), Error> {
        let error = error::of_command(&refusal);
        let redirect = Redirect::of(&refusal, &from.address);
        if let Some(Redirect::Demoted) = redirect {
            from.commands.retire();
        }
        // A store on a single server has no other.
        let Some(redirect) = redirect.filter(|_| self.settings.topology.fails_over()) else {
            return self.judged(what, Err(error));
        };
        route.ask = None;
        route.redirects += 1;
        if route.redirects > REDIRECTS {
            return Err(error);
        }
        match redirect {
            Redirect::Moved(address) => {
                let slot = match route.about {
                    About::Bucket(bucket) => bucket.slot(),
                    About::Slot(slot) => slot,
                };
                self.discovery.moved(slot, &address);
                self.leave(route.about);
            }
            Redirect::Ask(address) => {
                let bucket = match route.about {
                    About::Bucket(bucket) => bucket,
                    About::Slot(_) => Bucket::FIRST,
                };
                route.ask = Some(self.connection_to(&address, bucket).await?);
            }
            Redirect::Unnamed => {
                return Err(Error::new(ErrorKind::Unavailable, error::NO_HOST_NAME));
            }
            Redirect::Again if !route.waits => return Err(error),
            Redirect::Again => {
                let pause = FIRST_PAUSE * (1 << (route.redirects - 1).min(8));
                tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
            }
            Redirect::Demoted => {
                self.discovery.doubt(&from.address);
            }
            Redirect::Alone => {
                // The next call searches for another server. If there is none, it finds this one
                // again.
                self.discovery.doubt(&from.address);
                self.leave(route.about);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The same for a script. If one of its keys is the cause, the error names that key.
    async fn follow_script(
        &self,
        route: &mut Route,
        from: &Connection,
        script: &Script,
        keys: &[String],
        refusal: RedisError,
    ) -> Result<(), Error> {
        if error::may_be_of_contents(&refusal) {
            unreadable::check(from, &self.keys, keys, &refusal).await?;
        }
        self.follow_refusal(route, from, &script.hash, refusal).await
    }

    fn leave(&self, about: About) {
        if let About::Bucket(bucket) = about {
            self.pool.set(bucket, None);
        }
    }

    /// Sends one command about a bucket.
    pub(crate) async fn send(&self, bucket: Bucket, command: &Cmd) -> Result<Value, Error> {
        let mut route = Route::to(bucket);
        loop {
            let connection = self.connection_for(&route).await?;
            match connection.commands.send_asking(route.ask.is_some(), command).await {
                Ok(value) => {
                    self.unknown_errors.forget(COMMAND);
                    return Ok(value);
                }
                Err(refusal) => {
                    Box::pin(self.follow_refusal(&mut route, &connection, COMMAND, refusal)).await?
                }
            }
        }
    }

    /// Runs a script that needs only its own keys and arguments.
    pub(crate) async fn run(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<Value, Error> {
        Ok(self.run_on(Route::to(bucket), script, keys, arguments).await?.0)
    }

    /// Runs the script of renewals, and returns the connection on which it ran. An error that is
    /// [`error::is_divided`] is returned at once: the caller does better with each key alone.
    pub(crate) async fn run_renewal(
        &self,
        bucket: Bucket,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<(Value, Arc<Connection>), Error> {
        let route = Route { waits: false, renews: true, ..Route::to(bucket) };
        self.run_on(route, &scripts::RENEW, keys, arguments).await
    }

    /// Runs a script on keys in the slot of a user's key.
    pub(crate) async fn run_in_slot(
        &self,
        slot: u16,
        script: &Script,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<(Value, Arc<Connection>), Error> {
        let about = match self.discovery {
            Discovery::Cluster(_) => About::Slot(slot),
            Discovery::Fixed(_) | Discovery::Sentinel(_) => About::Bucket(Bucket::FIRST),
        };
        self.run_on(Route::about(about), script, keys, arguments).await
    }

    async fn run_on(
        &self,
        mut route: Route,
        script: &Script,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<(Value, Arc<Connection>), Error> {
        loop {
            let connection = self.connection_for(&route).await?;
            if route.renews {
                connection.handshake().await?;
            }
            match call(&connection, route.ask.is_some(), script, keys, arguments).await {
                Ok(value) => return Ok((self.accepted(script, value)?, connection)),
                Err(refusal) => {
                    let follow = self.follow_script(&mut route, &connection, script, keys, refusal);
                    Box::pin(follow).await?;
                }
            }
        }
    }

    /// The answer of a script that the server has run.
    fn accepted(&self, script: &Script, answer: Value) -> Result<Value, Error> {
        check_version(&answer)?;
        self.unknown_errors.forget(&script.hash);
        Ok(answer)
    }

    /// Runs a script that may grant, with the server's identity on this connection.
    pub(crate) async fn run_in_epoch(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        own: &Arguments,
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        Ok(self.run_in_epoch_with_connection(bucket, script, keys, own, read).await?.0)
    }

    /// As [`run_in_epoch`](Self::run_in_epoch), on the keys of a name and an owner.
    pub(crate) async fn run_for(
        &self,
        name: &LockName,
        owner: OwnerId,
        script: &Script,
        own: &Arguments,
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let (bucket, keys) = (self.keys.bucket(name), self.keys.of(name, owner));
        self.run_in_epoch(bucket, script, &keys, own, read).await
    }

    /// The arguments of a script that may grant: those of the epoch, then its own.
    pub(super) fn in_epoch(&self, handshake: &Handshake, own: &Arguments) -> Arguments {
        let (identity, agreed) = (&handshake.identity, self.agreed());
        let epoch = Epoch {
            run: &identity.run,
            replid: &identity.replid,
            longest: agreed.longest_lease,
            quarantine: agreed.quarantine,
            margin: &Failover::of(&self.settings, identity).argument(),
            deadline: handshake.deadline(SystemEnv.now(), self.settings.late_after),
        };
        epoch.before(own)
    }

    /// As [`run_in_epoch`](Self::run_in_epoch), and returns the connection on which it ran.
    pub(crate) async fn run_in_epoch_with_connection(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        own: &Arguments,
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<(Answer, Arc<Connection>), Error> {
        let has_waiters = self.listener.listens(bucket);
        let (mut route, mut tries) = (Route::to(bucket), 0);
        while tries < EPOCH_TRIES {
            let connection = self.connection_for(&route).await?;
            if has_waiters {
                Box::pin(connection.listening.subscribe(bucket)).await?;
            }
            let handshake = self.judged(HANDSHAKE, connection.handshake().await)?;
            if !handshake.seen.record {
                Box::pin(self.first_use(&connection, bucket)).await?;
            }
            let arguments = self.in_epoch(&handshake, own);
            let ran = call(&connection, route.ask.is_some(), script, keys, &arguments).await;
            let answer = match ran {
                Ok(value) => read(self.accepted(script, value)?)?,
                Err(refusal) => {
                    let follow = self.follow_script(&mut route, &connection, script, keys, refusal);
                    Box::pin(follow).await?;
                    continue;
                }
            };
            tries += 1;
            match answer.reply {
                // Late only because the server's clock was stepped: the answer has come in time.
                Some(Reply::Stale | Reply::Late) if answer.first.is_none() => {
                    Box::pin(connection.confirm()).await?;
                    self.guarantees.update(&connection, &self.pool);
                }
                Some(Reply::Settings(stored)) if answer.first.is_none() => self.adopt(stored)?,
                Some(Reply::UnreadableSettings(what)) => {
                    return Err(unreadable::epoch(&keys[0], &what));
                }
                _ => return Ok((answer, connection)),
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the server changes its role or its clock again and again",
        ))
    }
}

/// Runs a script on this connection.
pub(super) async fn call(
    connection: &Connection,
    asking: bool,
    script: &Script,
    keys: &[String],
    arguments: &Arguments,
) -> Result<Value, RedisError> {
    let command = |name: &str, script: &str| -> Cmd {
        // The command has its final size from the start: that of a batch would grow many times.
        let bytes = keys.iter().map(String::len).sum::<usize>() + arguments.size();
        let bytes = bytes + name.len() + script.len() + 4;
        let mut command = Cmd::with_capacity(keys.len() + arguments.len() + 3, bytes);
        command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(arguments);
        command
    };
    let answer = connection.commands.send_asking(asking, &command("EVALSHA", &script.hash)).await;
    if !answer.as_ref().is_err_and(is_noscript) {
        return answer;
    }
    let [by_text, by_hash] = [command("EVAL", &script.text), command("EVALSHA", &script.hash)];
    Box::pin(connection.commands.bring(asking, &script.hash, &by_text, &by_hash)).await
}
