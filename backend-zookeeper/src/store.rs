//! The parts that the steps share.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lock_core::{
    ConnectionSecurity, Env as _, Error, ErrorKind, FencingToken, Grant, Guarantees, LockName,
    Mutex, Request, RwLock, StoreSettings, SystemEnv, check_lease, check_span, check_token,
};
use zookeeper_client::{CreateMode, Stat};

use crate::{
    guarantees::guarantees,
    keys::{
        data::to_bytes,
        layout::Layout,
        settings::{Settings, check_longest},
    },
    session::{Ending, Session, Sessions},
    tunables::{REMEMBERED_NAMES, TRIES},
    waiting::Waiters,
};

/// Locks in ZooKeeper.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) layout: Layout,
    pub(crate) waiters: Waiters,
    connection: ConnectionSecurity,
    /// The settings as they were last read, and what follows from them.
    known: RwLock<(Settings, Arc<Guarantees>)>,
    /// Locks that others held, or waited for, when this client last looked.
    pub(crate) busy: Mutex<HashSet<LockName>>,
}

/// The state of a grant.
#[derive(Clone, Debug)]
pub(crate) struct OwnEntry {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    /// The place in the queue.
    pub(crate) number: i32,
    /// The version of the entry's data.
    pub(crate) version: i32,
}

impl OwnEntry {
    /// The entry of a grant.
    pub(crate) fn of(grant: &Grant) -> Result<&Self, Error> {
        let own = grant.state.as_ref().and_then(|state| state.downcast_ref());
        let message = "the grant is not of this backend";
        own.ok_or_else(|| Error::new(ErrorKind::InvalidInput, message))
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Store {
    /// `expected` is the longest lease of the client's configuration.
    pub(crate) async fn open(
        sessions: Sessions,
        layout: Layout,
        connection: ConnectionSecurity,
        expected: Option<Duration>,
    ) -> Result<Arc<Self>, Error> {
        let (sessions, path) = (Arc::new(sessions), layout.settings());
        let longest = expected.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let session = match sessions.for_lease(longest).await {
            // The servers give no session for the default. Perhaps the store has a shorter one.
            Err(error) if expected.is_none() && error.kind() == ErrorKind::InvalidInput => {
                let session = sessions.for_lease(sessions.shortest()).await?;
                session.read_one(&path).await?.ok_or(error)?;
                session
            }
            opened => opened?,
        };
        let first = Settings::first(longest, session.epoch());
        let known = (first.clone(), Arc::new(guarantees(&first, &sessions, connection)));
        let known = RwLock::new(known);
        let (waiters, busy) = Default::default();
        let store = Self { sessions, layout, waiters, connection, known, busy };
        if session.read_one(&path).await?.is_none() {
            check_longest(longest, store.sessions.shortest())?;
            session.make(&path, &to_bytes(&first), CreateMode::Persistent).await?;
        }
        let (settings, _) = store.read_settings(&session).await?;
        let longest = settings.longest_lease();
        if let Some(expected) = expected.filter(|expected| *expected != longest) {
            let show = humantime::format_duration;
            let message = format!(
                "this client expects the longest lease {}, and the store has {}; `init` changes it",
                show(expected),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(Arc::new(store))
    }

    /// The settings as they were last read.
    pub(crate) fn settings(&self) -> Settings {
        self.known.read().0.clone()
    }

    pub(crate) fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.known.read().1)
    }

    /// Any session, for what does not live by a session.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, Error> {
        let longest = self.settings().longest_lease();
        self.sessions.any(longest).await
    }

    /// A session whose server knows of all that was confirmed before: a follower may be behind.
    pub(crate) async fn fresh_session(&self) -> Result<Arc<Session>, Error> {
        let session = self.session().await?;
        // guard: fresh-read | S7 | ensemble::a_follower_that_is_behind_answers_no_old_record |
        //   session.touch().await? => ()
        session.touch().await?;
        Ok(session)
    }

    /// The session of a grant, or another one if it has ended.
    pub(crate) async fn session_of(&self, held: &OwnEntry) -> Result<Arc<Session>, Error> {
        match held.session.is_alive() {
            true => Ok(Arc::clone(&held.session)),
            false => self.session().await,
        }
    }

    /// Reads the settings, and the version of their node.
    pub(crate) async fn read_settings(
        &self,
        session: &Arc<Session>,
    ) -> Result<(Settings, i32), Error> {
        let found = session.read_one(&self.layout.settings()).await?;
        self.settings_of(session, found).await
    }

    /// The settings of a node that was read, and its version. If it is missing, the store has lost
    /// its data. An answer that comes late may have settings of before: who decides by settings
    /// decides by those that it has read itself.
    pub(crate) async fn settings_of(
        &self,
        session: &Arc<Session>,
        found: Option<(Vec<u8>, Stat)>,
    ) -> Result<(Settings, i32), Error> {
        let (data, stat) = match found {
            Some(found) => found,
            None => self.restore_settings(session).await?,
        };
        let settings = Settings::read(&data)?;
        check_longest(settings.longest_lease(), self.sessions.shortest())?;
        if self.known.read().0 != settings {
            let guarantees = guarantees(&settings, &self.sessions, self.connection);
            *self.known.write() = (settings.clone(), Arc::new(guarantees));
        }
        Ok((settings, stat.version))
    }

    /// Writes the settings that this client knows into a store that has lost its data. Others may
    /// still hold locks that are lost, too.
    async fn restore_settings(&self, session: &Arc<Session>) -> Result<(Vec<u8>, Stat), Error> {
        // This fails in a session of before. A later one knows the present epoch.
        session.touch().await?;
        let (path, mut settings) = (self.layout.settings(), self.settings());
        settings.lost(session.epoch(), self.sessions.clock.latest());
        session.make(&path, &to_bytes(&settings), CreateMode::Persistent).await?;
        let missing = || Error::new(ErrorKind::Unavailable, "the settings were removed again");
        session.read_one(&path).await?.ok_or_else(missing)
    }

    /// Whether nothing is to be done before a grant in this epoch.
    fn has_entered(&self, settings: &Settings, session: &Session, epoch: i64) -> bool {
        let (_, since) = session.unbroken(settings.longest_held());
        settings.has_entered(epoch, since, self.sessions.clock.earliest())
    }

    /// Before a grant in this epoch: begins to wait where data may have been lost. Takes and
    /// returns the settings that were read, and their version.
    pub(crate) async fn enter_epoch(
        &self,
        session: &Arc<Session>,
        (mut settings, mut version): (Settings, i32),
        epoch: i64,
    ) -> Result<(Settings, i32), Error> {
        let clock = &self.sessions.clock;
        for _ in 0..TRIES {
            // The clock of an earlier leader may be ahead.
            if clock.epoch() < epoch.max(settings.last_epoch()) {
                session.touch().await?;
            }
            let is_known = clock.epoch() >= settings.last_epoch();
            if is_known && self.has_entered(&settings, session, epoch) {
                return Ok((settings, version));
            }
            // A write in the present epoch shows whether this session knows it.
            session.touch().await?;
            self.enter_epoch_of(session, &mut settings);
            self.put_settings(session, &settings, version).await?;
            (settings, version) = self.read_settings(session).await?;
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// Changes settings that were read before the last write of this session: its epoch is entered.
    fn enter_epoch_of(&self, session: &Session, settings: &mut Settings) {
        let (clock, (epoch, since)) =
            (&self.sessions.clock, session.unbroken(settings.longest_held()));
        if epoch < settings.last_epoch() {
            // The nodes were copied to servers that count their own elections.
            return settings.lost(epoch, clock.latest());
        }
        settings.enter(epoch, since, [clock.earliest(), clock.latest()]);
    }

    /// The settings that an attempt would find, or make. Writes none.
    pub(crate) async fn settings_for_attempts(&self) -> Result<Settings, Error> {
        let session = self.fresh_session().await?;
        let found = session.read_one(&self.layout.settings()).await?;
        session.touch().await?;
        let Some((data, _)) = found else {
            let mut settings = self.settings();
            settings.lost(session.epoch(), self.sessions.clock.latest());
            return Ok(settings);
        };
        let mut settings = Settings::read(&data)?;
        self.enter_epoch_of(&session, &mut settings);
        Ok(settings)
    }

    /// Reads the settings, and [enters](Self::enter_epoch) the present epoch.
    pub(crate) async fn enter_present_epoch(
        &self,
        session: &Arc<Session>,
    ) -> Result<(Settings, i32), Error> {
        session.touch().await?;
        let settings = self.read_settings(session).await?;
        self.enter_epoch(session, settings, session.epoch()).await
    }

    /// A holder that has lived through an election may know that nothing was lost. If it does not,
    /// or the store does not answer, its locks are the same.
    pub(crate) async fn enter_epoch_as_holder(&self, session: &Arc<Session>) {
        if !self.has_entered(&self.settings(), session, session.seen_epoch())
            && let Err(error) = self.enter_present_epoch(session).await
        {
            tracing::trace!(target: "leasehold", %error, "an epoch was not opened");
        }
    }

    /// Replaces the settings, if nobody else has changed them. `false` otherwise.
    pub(crate) async fn put_settings(
        &self,
        session: &Arc<Session>,
        settings: &Settings,
        version: i32,
    ) -> Result<bool, Error> {
        let (path, data) = (self.layout.settings(), to_bytes(settings));
        match session.put_with_own(path, data, version).await {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_changed() => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Refuses what this store cannot grant.
    pub(crate) fn check_request(&self, request: &Request) -> Result<(), Error> {
        let longest = self.settings().longest_lease();
        check_lease(request.lease, longest)?;
        check_span("lease", request.lease, self.sessions.shortest(), longest)?;
        self.check_token(request.floor)
    }

    /// Refuses a token that is too far ahead of the clock.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, self.sessions.clock.earliest(), self.settings().longest_lease())
    }

    pub(crate) fn remember_busy(&self, name: &LockName, is_busy: bool) {
        let mut busy = self.busy.lock();
        if !is_busy {
            busy.remove(name);
        } else if busy.len() < REMEMBERED_NAMES {
            busy.insert(name.clone());
        } else {
            busy.clear();
        }
    }

    /// Removes an entry that is of no use. If that fails, the keeper of the session removes it.
    pub(crate) async fn remove(&self, held: &OwnEntry) {
        match held.session.delete(&held.path, Some(held.version)).await {
            Ok(_) => held.session.forget(&held.path),
            Err(_) => held.session.end_at(&held.path, SystemEnv.now(), Ending::Unused),
        }
    }
}
