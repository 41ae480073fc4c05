//! Scripts, on the server that serves their bucket.

use std::{sync::Arc, time::Duration};

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use redis::{Cmd, ErrorKind as Driver, RedisError, ServerErrorKind, Value};

use crate::{
    error,
    failover::Failover,
    keys::Bucket,
    link::Link,
    redirect::Redirect,
    reply::Reply,
    scripts::Script,
    store::{Answer, Store},
    topology::Finder,
};

/// How often a command is sent on before the cluster is taken to be in disorder.
const TURNS: u32 = 8;
/// The first pause while a slot is on the move; each is twice the one before, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What a command is about, and so where it goes.
#[derive(Clone, Copy)]
enum About {
    Bucket(Bucket),
    /// The slot of a key of the user's own.
    Slot(u16),
}

/// The search for the server that takes a command.
struct Way {
    about: About,
    /// Where this command is to be asked for, and no other.
    ask: Option<Arc<Link>>,
    turns: u32,
    /// Whether to wait while a slot on the move has some of the keys here and some there.
    waits: bool,
}

impl Way {
    fn to(bucket: Bucket) -> Self {
        Self::about(About::Bucket(bucket))
    }

    fn about(about: About) -> Self {
        Self { about, ask: None, turns: 0, waits: true }
    }
}

impl Store {
    async fn on(&self, way: &Way) -> Result<Arc<Link>, Error> {
        match (&way.ask, way.about) {
            (Some(link), _) => Ok(Arc::clone(link)),
            (None, About::Bucket(bucket)) => self.link(bucket).await,
            // Boxed, here and below: what seldom happens is not to make every call large.
            (None, About::Slot(slot)) => Box::pin(self.on_slot(slot)).await,
        }
    }

    async fn on_slot(&self, slot: u16) -> Result<Arc<Link>, Error> {
        let place = self.finder.locate_slot(slot).await?;
        match self.link_to(&place, Bucket::FIRST).await {
            // As in a search for a bucket.
            Err(error) if error.is_retryable() && self.finder.doubt(&place) => {
                let place = self.finder.locate_slot(slot).await?;
                self.link_to(&place, Bucket::FIRST).await
            }
            other => other,
        }
    }

    /// Goes where a refusal points; the error itself if it points nowhere.
    async fn turn(&self, way: &mut Way, from: &Link, refusal: RedisError) -> Result<(), Error> {
        let error = error::of_command(&refusal);
        let redirect = Redirect::of(&refusal, &from.place);
        if let Some(Redirect::Demoted) = redirect {
            from.retire();
        }
        // One server that has no others knows no way.
        let Some(redirect) = redirect.filter(|_| self.settings.topology.fails_over()) else {
            return Err(error);
        };
        way.ask = None;
        way.turns += 1;
        if way.turns > TURNS {
            return Err(error);
        }
        match redirect {
            Redirect::Moved(place) => {
                let slot = match way.about {
                    About::Bucket(bucket) => bucket.slot(),
                    About::Slot(slot) => slot,
                };
                self.finder.moved(slot, &place);
                self.leave(way.about);
            }
            Redirect::Ask(place) => {
                let bucket = match way.about {
                    About::Bucket(bucket) => bucket,
                    About::Slot(_) => Bucket::FIRST,
                };
                way.ask = Some(self.link_to(&place, bucket).await?);
            }
            Redirect::Unnamed => {
                return Err(Error::new(ErrorKind::Unavailable, error::NO_HOST_NAME));
            }
            Redirect::Again if !way.waits => return Err(error),
            Redirect::Again => {
                let pause = FIRST_PAUSE * (1 << (way.turns - 1).min(8));
                tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
            }
            Redirect::Demoted => {
                self.finder.doubt(&from.place);
            }
            Redirect::Alone => {
                // Whoever asks next looks for another; if there is none, this one is found again.
                self.finder.doubt(&from.place);
                self.leave(way.about);
                return Err(error);
            }
        }
        Ok(())
    }

    fn leave(&self, about: About) {
        if let About::Bucket(bucket) = about {
            self.routes.set(bucket, None);
        }
    }

    /// One command about a bucket.
    pub(crate) async fn send(&self, bucket: Bucket, command: &Cmd) -> Result<Value, Error> {
        let mut way = Way::to(bucket);
        loop {
            let link = self.on(&way).await?;
            match link.ask(way.ask.is_some(), command).await? {
                Ok(value) => return Ok(value),
                Err(refusal) => Box::pin(self.turn(&mut way, &link, refusal)).await?,
            }
        }
    }

    /// Runs a script that asks for nothing but keys and arguments of its own.
    pub(crate) async fn run(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        Ok(self.run_on(Way::to(bucket), script, keys, arguments).await?.0)
    }

    /// The same, and on which connection it ran. An error that is [`error::is_divided`] comes at once: the caller
    /// does better with each key by itself.
    pub(crate) async fn run_undivided(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<(Value, Arc<Link>), Error> {
        let way = Way { waits: false, ..Way::to(bucket) };
        self.run_on(way, script, keys, arguments).await
    }

    /// Runs a script on keys of the user's own slot.
    pub(crate) async fn run_in_slot(
        &self,
        slot: u16,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<(Value, Arc<Link>), Error> {
        let about = match self.finder {
            Finder::Cluster(_) => About::Slot(slot),
            Finder::Fixed(_) | Finder::Sentinel(_) => About::Bucket(Bucket::FIRST),
        };
        self.run_on(Way::about(about), script, keys, arguments).await
    }

    async fn run_on(
        &self,
        mut way: Way,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<(Value, Arc<Link>), Error> {
        loop {
            let link = self.on(&way).await?;
            match call(&link, way.ask.is_some(), script, keys, arguments).await? {
                Ok(value) => return Ok((value, link)),
                Err(refusal) => Box::pin(self.turn(&mut way, &link, refusal)).await?,
            }
        }
    }

    /// Runs a script that may grant: it is told who the server said it is on this connection.
    pub(crate) async fn run_in_epoch(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        own: &[&[u8]],
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        Ok(self.run_in_epoch_somewhere(bucket, script, keys, own, read).await?.0)
    }

    /// The same, and on which connection it ran.
    pub(crate) async fn run_in_epoch_somewhere(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        own: &[&[u8]],
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<(Answer, Arc<Link>), Error> {
        let waiting_for_places = self.pushes.waits_in(bucket);
        let (mut way, mut tries) = (Way::to(bucket), 0);
        while tries < 4 {
            let link = self.on(&way).await?;
            if waiting_for_places {
                Box::pin(link.listening.subscribe(bucket)).await?;
            }
            let told = link.handshake().await?;
            let identity = &told.identity;
            let agreed = self.agreed();
            let longest = agreed.longest.as_micros().to_string();
            let quarantine = if agreed.quarantine { "on" } else { "off" };
            let failover = Failover::of(&self.settings, identity).argument();
            let deadline = told.deadline(SystemEnv.now(), self.settings.late_after).to_string();
            let packed: String;
            let mut arguments: Vec<&[u8]> = Vec::with_capacity(own.len() + 6);
            if script.packed {
                packed =
                    [&identity.run, &identity.replid, &*longest, quarantine, &failover].join(" ");
                arguments.extend([packed.trim_end().as_bytes(), deadline.as_bytes()]);
                arguments.extend_from_slice(own);
            } else {
                arguments.extend([identity.run.as_bytes(), identity.replid.as_bytes()]);
                arguments.extend([longest.as_bytes(), quarantine.as_bytes()]);
                arguments.extend_from_slice(own);
                arguments.extend([deadline.as_bytes(), failover.as_bytes()]);
            }
            let answer = match call(&link, way.ask.is_some(), script, keys, &arguments).await? {
                Ok(value) => read(value)?,
                Err(refusal) => {
                    Box::pin(self.turn(&mut way, &link, refusal)).await?;
                    continue;
                }
            };
            tries += 1;
            match answer.reply {
                // Late by a clock that was stepped, since the answer has come in time.
                Some(Reply::Stale | Reply::Late) if answer.first.is_none() => {
                    Box::pin(link.confirm()).await?;
                    self.promises.heard(&link, &self.routes);
                }
                Some(Reply::Settings(stored)) if answer.first.is_none() => self.adopt(stored)?,
                _ => return Ok((answer, link)),
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the server changes its role or its clock again and again",
        ))
    }
}

/// Runs a script on this connection.
async fn call(
    link: &Link,
    asking: bool,
    script: &Script,
    keys: &[String],
    arguments: &[&[u8]],
) -> Result<Result<Value, RedisError>, Error> {
    let command = |name: &str, script: &str| -> Cmd {
        // As large as it becomes: that of a batch would grow many times.
        let bytes = keys.iter().map(String::len).chain(arguments.iter().map(|word| word.len()));
        let bytes = bytes.sum::<usize>() + name.len() + script.len() + 4;
        let mut command = Cmd::with_capacity(keys.len() + arguments.len() + 3, bytes);
        command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(arguments);
        command
    };
    let answer = link.ask(asking, &command("EVALSHA", &script.hash)).await?;
    if answer.as_ref().is_err_and(is_noscript) {
        // The whole text runs it and loads it in one.
        return link.ask(asking, &command("EVAL", &script.source)).await;
    }
    Ok(answer)
}

fn is_noscript(error: &RedisError) -> bool {
    error.kind() == Driver::Server(ServerErrorKind::NoScript)
}
