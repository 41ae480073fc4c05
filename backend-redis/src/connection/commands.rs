//! Sends commands on one socket, with a time limit for each.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::Error;
use redis::{Cmd, RedisError, Value};

use crate::connection::{
    error,
    sent_scripts::{SentScripts, is_noscript},
    socket::Socket,
};

pub(crate) struct Commands {
    socket: Socket,
    timeout: Duration,
    /// A command had no answer in time, or the connection ended. The next caller makes a new
    /// connection.
    dead: Arc<AtomicBool>,
    texts: SentScripts,
}

impl Commands {
    pub(super) fn new(socket: Socket, timeout: Duration, dead: Arc<AtomicBool>) -> Self {
        Self { socket, timeout, dead, texts: SentScripts::default() }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// How many bytes have come from the server.
    pub(super) fn received(&self) -> u64 {
        self.socket.received()
    }

    /// Gives the connection up. Each call that waits for an answer learns that its outcome is
    /// unknown.
    pub(crate) fn give_up(&self) {
        self.retire();
        self.socket.end();
    }

    pub(crate) fn retire(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Sends one command, with the time limit of every command. Each error is ours.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Error> {
        self.send(command).await.map_err(|error| error::of_command(&error))
    }

    /// The same, for a caller that knows what to do about some errors. An error is the answer of
    /// the server, or says that no answer came.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.limited(self.socket.send(command)).await?.extract_error()
    }

    /// As [`send`](Self::send). `asking` is for keys of a slot that is moving to this server.
    pub(crate) async fn send_asking(
        &self,
        asking: bool,
        command: &Cmd,
    ) -> Result<Value, RedisError> {
        if !asking {
            return self.send(command).await;
        }
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut answers = self.limited(self.socket.send_all(&both)).await?;
        answers.pop().unwrap_or(Value::Nil).extract_error()
    }

    /// Runs a script that the server does not know: by its text, which also loads it; or by its
    /// hash, after another call has sent the text.
    pub(crate) async fn bring(
        &self,
        asking: bool,
        hash: &str,
        by_text: &Cmd,
        by_hash: &Cmd,
    ) -> Result<Value, RedisError> {
        // The second round is for a text that was sent long ago and that the server has forgotten.
        for _ in 0..2 {
            let sent = self.texts.sent(hash);
            let mut own = None;
            sent.get_or_init(async || own = Some(self.send_asking(asking, by_text).await)).await;
            if let Some(answer) = own {
                return answer;
            }
            let answer = self.send_asking(asking, by_hash).await;
            if !answer.as_ref().is_err_and(is_noscript) {
                return answer;
            }
            self.texts.forget(hash, &sent);
        }
        self.send_asking(asking, by_text).await
    }

    async fn limited<T>(
        &self,
        work: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let answer = tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            let shown = humantime::format_duration(self.timeout);
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {shown}")).into())
        });
        if answer.as_ref().is_err_and(|e| e.is_unrecoverable_error() || e.is_io_error()) {
            // The next command uses another connection.
            self.retire();
        }
        answer
    }
}
