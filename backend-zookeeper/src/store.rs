//! The parts that the steps share.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lock_core::{
    ConnectionSecurity, Env as _, Error, ErrorKind, FencingToken, Guarantees, Instant, LockName,
    Mutex, Request, RwLock, StoreSettings, SystemEnv, check_lease, check_span, check_token,
};
use zookeeper_client::CreateMode;

use crate::{
    guarantees::guarantees,
    keys::{
        data::to_bytes,
        layout::Layout,
        settings::{Settings, check_longest},
    },
    session::{Ending, Found, Session, Sessions, Write},
    tunables::{REMEMBERED_NAMES, TRIES},
    waiting::Waiters,
};

/// Locks in ZooKeeper.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Sessions,
    pub(crate) layout: Layout,
    pub(crate) waiters: Waiters,
    connection: ConnectionSecurity,
    known: RwLock<Known>,
    busy: Mutex<HashSet<LockName>>,
}

/// The settings as they were last read.
#[derive(Debug)]
struct Known {
    settings: Settings,
    version: i32,
    /// The transaction that wrote them. After a restore, another one may have made this version.
    zxid: i64,
    guarantees: Arc<Guarantees>,
}

/// The state of a grant.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    /// The place in the queue.
    pub(crate) number: i32,
    /// The version of the entry's data.
    pub(crate) version: i32,
}

impl Held {
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
        let longest = expected.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let session = sessions.for_lease(longest).await?;
        let settings = Settings::first(longest, session.epoch());
        let guarantees = Arc::new(guarantees(&settings, &sessions, connection));
        let known = Known { settings, version: -1, zxid: 0, guarantees };
        let store = Self {
            sessions,
            layout,
            waiters: Waiters::default(),
            connection,
            known: RwLock::new(known),
            busy: Mutex::default(),
        };
        store.create_settings(&session).await?;
        let longest = store.settings().longest_lease();
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

    pub(crate) fn settings(&self) -> Settings {
        self.known.read().settings.clone()
    }

    /// The settings, and the version of their node.
    pub(crate) fn versioned_settings(&self) -> (Settings, i32) {
        let known = self.known.read();
        (known.settings.clone(), known.version)
    }

    pub(crate) fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.known.read().guarantees)
    }

    /// Any session, for what does not live by a session.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, Error> {
        let longest = self.known.read().settings.longest_lease();
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
    pub(crate) async fn session_of(&self, held: &Held) -> Result<Arc<Session>, Error> {
        match held.session.is_alive() {
            true => Ok(Arc::clone(&held.session)),
            false => self.session().await,
        }
    }

    /// Reads the settings, and makes them in an unused store.
    async fn create_settings(&self, session: &Session) -> Result<(), Error> {
        let path = self.layout.settings();
        let found = session.read_one(&path).await?;
        if found.is_none() {
            let first = to_bytes(&self.known.read().settings);
            session.make(&path, &first).await?;
        }
        let found = session.read_one(&path).await?;
        self.note_settings(found.map_or(Found::Missing, |(data, stat)| Found::Data(data, stat)))?;
        Ok(())
    }

    /// Records settings that were read. `false` if they are missing: the store has lost its data.
    pub(crate) fn note_settings(&self, found: Found) -> Result<bool, Error> {
        let Some((data, stat)) = found.data() else { return Ok(false) };
        {
            let known = self.known.read();
            if (known.version, known.zxid) == (stat.version, stat.mzxid) {
                return Ok(true);
            }
        }
        let settings = Settings::read(&data)?;
        check_longest(settings.longest_lease())?;
        let guarantees = Arc::new(guarantees(&settings, &self.sessions, self.connection));
        let (version, zxid) = (stat.version, stat.mzxid);
        *self.known.write() = Known { settings, version, zxid, guarantees };
        Ok(true)
    }

    /// Reads the settings again.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<(), Error> {
        let found = session.read_one(&self.layout.settings()).await?;
        let found = found.map_or(Found::Missing, |(data, stat)| Found::Data(data, stat));
        match self.note_settings(found)? {
            true => Ok(()),
            false => self.restore_settings(session).await,
        }
    }

    /// Writes the settings that this client knows into a store that has lost its data. Others may
    /// still hold locks that are lost, too.
    pub(crate) async fn restore_settings(&self, session: &Session) -> Result<(), Error> {
        let mut settings = self.settings();
        settings.lost(self.sessions.clock.latest());
        session.make(&self.layout.settings(), &to_bytes(&settings)).await?;
        let found = session.read_one(&self.layout.settings()).await?;
        self.known.write().version = -1;
        self.note_settings(found.map_or(Found::Missing, |(data, stat)| Found::Data(data, stat)))?;
        Ok(())
    }

    /// Before a grant in this epoch: begins to wait where data may have been lost.
    pub(crate) async fn meet(&self, session: &Session, epoch: i64) -> Result<(), Error> {
        let clock = &self.sessions.clock;
        for _ in 0..TRIES {
            let (settings, gone_back) = (self.settings(), clock.has_gone_back());
            let since = session.unbroken_since(settings.longest_held());
            if settings.has_met(epoch, since, clock.earliest()) && !gone_back {
                return Ok(());
            }
            // A write in the present epoch shows whether this session knows it.
            session.write_with_own(&[]).await?;
            let (mut settings, version) = self.versioned_settings();
            let since = session.unbroken_since(settings.longest_held());
            settings.meet(session.epoch(), since, [clock.earliest(), clock.latest()]);
            if gone_back {
                settings.lost(clock.latest());
            }
            if self.put_settings(session, &settings, version).await? && gone_back {
                clock.note_gone_back(false);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// Reads the settings, and [meets](Self::meet) the present epoch.
    pub(crate) async fn meet_present(&self, session: &Session) -> Result<(), Error> {
        session.write_with_own(&[]).await?;
        self.refresh(session).await?;
        self.meet(session, session.epoch()).await
    }

    /// Replaces the settings, if nobody else has changed them. `false` otherwise.
    pub(crate) async fn put_settings(
        &self,
        session: &Session,
        settings: &Settings,
        version: i32,
    ) -> Result<bool, Error> {
        let path = self.layout.settings();
        let put = [Write::Put(&path, &to_bytes(settings), version)];
        let written = session.write_with_own(&put).await;
        let is_changed = written.as_ref().is_err_and(|failure| failure.is_changed());
        if !is_changed {
            written?;
        }
        self.refresh(session).await?;
        Ok(!is_changed)
    }

    /// Refuses what this store cannot grant.
    pub(crate) fn check_request(&self, request: &Request) -> Result<(), Error> {
        let longest = self.known.read().settings.longest_lease();
        check_lease(request.lease, longest)?;
        check_span("lease", request.lease, self.sessions.shortest(), longest)?;
        self.check_token(request.floor)
    }

    /// Refuses a token that is too far ahead of the clock.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        let longest = self.known.read().settings.longest_lease();
        check_token(token, self.sessions.clock.earliest(), longest)
    }

    /// Whether others held a lock, or waited for it, when this client last looked.
    pub(crate) fn was_busy(&self, name: &LockName) -> bool {
        self.busy.lock().contains(name)
    }

    pub(crate) fn note_busy(&self, name: &LockName, is_busy: bool) {
        let mut busy = self.busy.lock();
        match is_busy {
            false => drop(busy.remove(name)),
            true if busy.contains(name) => {}
            true => {
                if busy.len() >= REMEMBERED_NAMES {
                    busy.clear();
                }
                busy.insert(name.clone());
            }
        }
    }

    /// Removes an entry that is of no use. If that fails, the keeper of the session removes it.
    pub(crate) async fn remove(&self, held: &Held) {
        match held.session.write(&[Write::Delete(&held.path, Some(held.version))]).await {
            Err(failure) if !failure.is_no_node() && !failure.is_changed() => {
                held.session.end_at(&held.path, SystemEnv.now(), Ending::Unused);
            }
            _ => held.session.forget(&held.path),
        }
    }

    /// Makes a node that ends with the session, and with `at`.
    pub(crate) async fn make_mark(
        &self,
        session: &Session,
        path: &str,
        at: Instant,
    ) -> Result<(), Error> {
        session.end_at(path, at, Ending::Other);
        loop {
            match session.write(&[Write::Create(path, &[], CreateMode::Ephemeral)]).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.is_changed() => return Ok(()),
                Err(failure) if failure.is_no_node() => {
                    session.make(crate::keys::layout::parent(path), &[]).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }
}
