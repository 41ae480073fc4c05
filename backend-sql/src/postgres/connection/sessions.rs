//! Sessions of a server, and statements in them, with a time limit.

use std::{
    convert::identity,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Error, SystemEnv, jittered};
use sqlx::{
    AssertSqlSafe, Connection as _, Decode, PgPool, Postgres, Row as _, SqlStr, Type,
    postgres::PgRow,
};
use tokio::time::{Instant, sleep};

use super::{
    arg::{Arg, inline},
    error::failure,
};
use crate::{
    error::{Failure, general},
    gate::Gate,
    postgres::statements::own_session,
    retry::Retry,
    servers::connections::Connections,
    tunables::postgres::{IDLE_AGAIN, PATIENCE},
};

type Answer = Result<Vec<PgRow>, sqlx::Error>;

/// How our statements send a message, and what stands there when the server has no room for one.
const NOTIFIES: &str = "pg_catalog.pg_notify(";
const NOTIFIES_NOBODY: &str = "pg_catalog.concat(";

/// The connections, and how statements are sent.
#[derive(Debug)]
pub struct Sessions {
    pub(crate) connections: Arc<Connections<Postgres>>,
    /// The option `prepare`: whether statements are prepared, and their arguments bound.
    prepares: Option<bool>,
    /// Whether no other client uses our sessions, as `waiting/listen.rs` has found out.
    alone: AtomicBool,
    /// Whether it is still to find that out.
    unknown: AtomicBool,
    own_session: SqlStr,
    /// Whether the newest session has the statements of a handoff: see
    /// [`Server::prepare_handoff`](super::server::Server::prepare_handoff).
    handoff_prepared: AtomicBool,
    retry: Retry,
    /// How many connections each kind of call may take.
    pub gate: Gate,
    /// How long a call may take.
    pub timeout: Duration,
}

impl Sessions {
    pub(crate) fn new(
        pool: PgPool,
        given: bool,
        prepares: Option<bool>,
        timeout: Duration,
    ) -> Self {
        let retry = Retry::new(timeout, "the server".into());
        let alone = AtomicBool::new(false);
        let gate = Gate::new(pool.options().get_max_connections(), timeout);
        let own_session = own_session(timeout);
        let connections = Connections::new(pool, given);
        let unknown = AtomicBool::new(false);
        Self {
            connections,
            prepares,
            alone,
            unknown,
            own_session,
            handoff_prepared: AtomicBool::new(true),
            retry,
            gate,
            timeout,
        }
    }

    /// Waits a while for an idle connection, so that a call that can wait starts no new session.
    /// Otherwise many clients of a busy server, whose answers are late, would start a session for
    /// each of their calls and make the server busier. Another call may take the connection first.
    pub(crate) async fn wait_for_idle(&self) {
        let end = Instant::now() + PATIENCE;
        let pool = &self.connections.pool;
        let most = pool.options().get_max_connections();
        while !self.connections.has_idle()
            && (1..most).contains(&pool.size())
            && Instant::now() < end
        {
            sleep(jittered(&SystemEnv, IDLE_AGAIN)).await;
        }
    }

    /// How often a statement was repeated although it may have been carried out.
    pub fn broken(&self) -> u64 {
        self.retry.broken()
    }

    /// From here on, nothing is prepared until it is known whether other clients use our sessions:
    /// the first statement that is prepared in a session comes with the settings of our own
    /// sessions, or for good without.
    pub(crate) fn sessions_will_be_known(&self) {
        self.unknown.store(true, Ordering::Relaxed);
    }

    /// Notes whether no other client uses our sessions. Behind a pooler that gives each transaction
    /// another session, a prepared statement is in another session when the client needs it, and
    /// this session may have another client's statement of the same name, which would run instead.
    /// So nothing is prepared before this is known.
    pub(crate) fn sessions_are_ours(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
        self.unknown.store(false, Ordering::Relaxed);
    }

    fn prepares(&self) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        self.prepares.unwrap_or(alone) && !self.unknown.load(Ordering::Relaxed)
    }

    /// Whether a session may have settings of ours. In a session that a pooler lends to other
    /// clients they would count for theirs, which the option `prepare=on` does not exclude.
    fn may_change_sessions(&self) -> bool {
        !self.connections.given && self.alone.load(Ordering::Relaxed)
    }

    /// Whether to prepare the statements of a handoff now. From here on they count as prepared.
    pub(super) fn begin_to_prepare_handoff(&self) -> bool {
        self.prepares() && !self.handoff_prepared.swap(true, Ordering::Relaxed)
    }

    /// Runs a statement, and repeats it while it loses conflicts with others, up to the time limit.
    ///
    /// # Errors
    /// As of a call.
    pub async fn run_once(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        self.retry.run(identity, || self.send(statement, args)).await
    }

    /// The same for a statement that is safe to run twice.
    ///
    /// # Errors
    /// As of a call.
    pub async fn run_repeatable(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        let connections = self.connections.pool.options().get_max_connections();
        self.retry.run_repeatable(connections, identity, || self.send(statement, args)).await
    }

    /// Sends a statement. If the server has no room for its message, sends it again without: a
    /// message only spares its receiver the time until the next poll, and must stop no release.
    async fn send(&self, statement: &SqlStr, args: &[Arg<'_>]) -> Result<Vec<PgRow>, Failure> {
        let mut answer = None;
        if self.prepares() {
            answer = self.send_prepared(statement, args).await?;
        }
        let answer = match answer {
            Some(answer) => answer,
            None => self.send_in_one_message(statement.as_str(), args).await?,
        };
        if !has_state(&answer, &["54000"]) || !statement.as_str().contains(NOTIFIES) {
            return answer.map_err(failure);
        }
        tracing::trace!(target: "leasehold",
            "the server's queue of notifications is full; a waiter is told by its next poll"
        );
        let silent = statement.as_str().replace(NOTIFIES, NOTIFIES_NOBODY);
        self.send_in_one_message(&silent, args).await?.map_err(failure)
    }

    /// `None` if nothing was carried out, because prepared statements do not work in this session.
    async fn send_prepared(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Option<Answer>, Failure> {
        let mut lent = self.connections.lend(failure).await?;
        if lent.connection()?.cached_statements_size() == 0 {
            // The first statement of this session.
            self.handoff_prepared.store(false, Ordering::Relaxed);
            if self.may_change_sessions() {
                let settings = sqlx::raw_sql(self.own_session.clone());
                if let Err(error) = settings.execute(lent.connection()?).await {
                    return Err(failure(error));
                }
            }
        }
        let query = sqlx::query(statement.clone());
        let query = args.iter().fold(query, |query, arg| arg.bind(query));
        let answer = query.fetch_all(lent.connection()?).await;
        // The session lacks the prepared statement, or already has one of that name.
        if !has_state(&answer, &["26000", "42P05"]) {
            lent.settle(&answer);
            return Ok(Some(answer));
        }
        // Drop the connection: its driver still counts on its prepared statements.
        tracing::trace!(target: "leasehold",
            "prepared statements are gone, or are another client's; nothing is prepared for now"
        );
        self.sessions_are_ours(false);
        Ok(None)
    }

    /// The driver sends a statement and its arguments in two messages, between which a pooler may
    /// change the session. So the arguments are in the statement.
    async fn send_in_one_message(
        &self,
        statement: &str,
        args: &[Arg<'_>],
    ) -> Result<Answer, Failure> {
        let mut lent = self.connections.lend(failure).await?;
        let limit = self.timeout.as_millis();
        let statement = inline(statement, args);
        let text = AssertSqlSafe(format!("SET LOCAL lock_timeout = {limit}; {statement}"));
        let answer = sqlx::raw_sql(text).fetch_all(lent.connection()?).await;
        lent.settle(&answer);
        Ok(answer)
    }

    /// Runs several statements without arguments, in one transaction.
    ///
    /// # Errors
    /// As of a call.
    pub async fn script(&self, text: String) -> Result<(), Error> {
        let limit = self.timeout.as_millis();
        let text: Arc<str> = format!("SET LOCAL lock_timeout = {limit}; {text}").into();
        let run = || async {
            let mut lent = self.connections.lend(failure).await?;
            let connection = lent.connection()?;
            let answer = sqlx::raw_sql(AssertSqlSafe(Arc::clone(&text))).execute(connection).await;
            lent.settle(&answer);
            answer.map(drop).map_err(failure)
        };
        self.retry.run(identity, run).await
    }

    /// Asks about the session in which this statement runs. It is one message, which a pooler does
    /// not split.
    pub(crate) async fn session(&self, text: &'static str) -> Result<i32, Error> {
        let run = || async {
            let mut lent = self.connections.lend(failure).await?;
            let connection = lent.connection()?;
            let answer = sqlx::raw_sql(text).fetch_one(connection).await;
            lent.settle(&answer);
            answer.and_then(|row| row.try_get(0)).map_err(failure)
        };
        self.retry.run(identity, run).await
    }

    /// Runs a statement without arguments that answers one number.
    ///
    /// # Errors
    /// As of a call.
    pub async fn number(&self, statement: &SqlStr) -> Result<Option<i64>, Error> {
        first(&self.run_repeatable(statement, &[]).await?)
    }

    /// Closes the pool, if it is our own.
    pub async fn close(&self) {
        self.connections.close().await;
    }
}

/// Whether the server refused a statement with one of these SQLSTATEs.
fn has_state(answer: &Answer, states: &[&str]) -> bool {
    let error = answer.as_ref().err().and_then(sqlx::Error::as_database_error);
    error.and_then(|error| error.code()).is_some_and(|code| states.contains(&&*code))
}

/// The first column of the first row.
///
/// # Errors
/// `Config` if it is of another type.
pub fn first<'r, T>(rows: &'r [PgRow]) -> Result<Option<T>, Error>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    rows.first().map(|row| row.try_get(0)).transpose().map_err(general)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use servers::{Postgres, PostgresOptions, Server as _};
    use sqlx::{SqlSafeStr as _, postgres::PgPoolOptions};

    use super::*;

    /// The settings that `own_session` changes, in a session of the client's own pool.
    async fn settings(server: &Postgres, alone: bool, given: bool) -> String {
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let url = format!("postgres://postgres@{}/postgres", server.address());
        let pool = pool.connect(&url).await.unwrap();
        let sessions = Sessions::new(pool, given, Some(true), Duration::from_secs(30));
        sessions.sessions_will_be_known();
        let begin = AssertSqlSafe("SELECT 1").into_sql_str();
        sessions.run_once(&begin, &[]).await.unwrap();
        sessions.sessions_are_ours(alone);
        let show = "SELECT pg_catalog.concat_ws(' ', pg_catalog.current_setting('lock_timeout'), \
            pg_catalog.current_setting('enable_seqscan'), pg_catalog.current_setting('jit'), \
            pg_catalog.current_setting('plan_cache_mode'))";
        let shown = sessions.run_once(&AssertSqlSafe(show).into_sql_str(), &[]).await.unwrap();
        first(&shown).unwrap().unwrap()
    }

    #[tokio::test]
    async fn only_sessions_that_are_known_to_be_ours_have_our_settings() {
        let server = Postgres::start(PostgresOptions::new()).await.unwrap();
        assert_eq!(settings(&server, true, false).await, "30s off off force_generic_plan");
        assert_eq!(settings(&server, false, false).await, "0 on on auto");
        assert_eq!(settings(&server, true, true).await, "0 on on auto", "the user's own pool");
    }

    #[tokio::test]
    async fn a_call_that_can_wait_starts_no_session() {
        let server = Postgres::start(PostgresOptions::new()).await.unwrap();
        let pool = PgPoolOptions::new().max_connections(2).test_before_acquire(false);
        let url = format!("postgres://postgres@{}/postgres", server.address());
        let pool = pool.connect(&url).await.unwrap();
        let sessions = Sessions::new(pool.clone(), true, Some(false), Duration::from_secs(30));
        assert!(sessions.wait_for_idle().now_or_never().is_some(), "one is idle");
        let _first = pool.acquire().await.unwrap();
        let began = Instant::now();
        sessions.wait_for_idle().await;
        assert!(began.elapsed() >= PATIENCE, "another session would be started");
        let _second = pool.acquire().await.unwrap();
        assert!(
            sessions.wait_for_idle().now_or_never().is_some(),
            "no other session may be started"
        );
    }
}
