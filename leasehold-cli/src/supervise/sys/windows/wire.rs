//! The pipe between leasehold and a helper process.
//!
//! Its name is random, it takes one connection, and none from another machine.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;

use leasehold::backend::{Env as _, SystemEnv};
use tokio::net::windows::named_pipe::{
    ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions,
};

use crate::supervise::messages::{FRAME, Message, decode, encode};

/// leasehold's end of the pipe.
pub(in crate::supervise) type Endpoint = NamedPipeServer;

/// The most frames that wait for a reader. More are lost, as on a socket.
const WAITING: usize = 512;

/// Makes a pipe. Returns its name, too.
pub(super) fn make() -> io::Result<(String, Endpoint)> {
    let name = format!(r"\\.\pipe\leasehold-{:032x}", SystemEnv.random());
    let mut options = ServerOptions::new();
    options.first_pipe_instance(true).max_instances(1).reject_remote_clients(true);
    let made = options.create(&name)?;
    Ok((name, made))
}

enum End {
    /// The helper has not connected yet.
    Listening(NamedPipeServer),
    Server(NamedPipeServer),
    Client(NamedPipeClient),
    Gone,
}

/// One end of the pipe.
pub(in crate::supervise) struct Wire {
    end: End,
    // A partly received frame is kept here and not in `receive`, because `select!` may drop its
    // future at any time.
    frame: [u8; FRAME],
    filled: usize,
    /// The frames to send, and how much of the first one was sent.
    waiting: VecDeque<[u8; FRAME]>,
    sent: usize,
}

impl Wire {
    fn new(end: End) -> Self {
        Self { end, frame: [0; FRAME], filled: 0, waiting: VecDeque::new(), sent: 0 }
    }

    pub(super) fn of_leasehold(pipe: Endpoint) -> Self {
        Self::new(End::Listening(pipe))
    }

    pub(super) fn of_helper(name: &OsStr) -> io::Result<Self> {
        Ok(Self::new(End::Client(ClientOptions::new().open(name)?)))
    }

    /// The next message; `None` once the other side is gone. Sends what waits. Cancel safe.
    pub(in crate::supervise) async fn receive<M: Message>(&mut self) -> Option<M> {
        loop {
            self.connect().await?;
            self.flush();
            let wanted = !self.waiting.is_empty();
            let readable = match &self.end {
                End::Server(pipe) => tokio::select! {
                    ready = pipe.readable() => ready.map(|()| true),
                    ready = pipe.writable(), if wanted => ready.map(|()| false),
                },
                End::Client(pipe) => tokio::select! {
                    ready = pipe.readable() => ready.map(|()| true),
                    ready = pipe.writable(), if wanted => ready.map(|()| false),
                },
                End::Listening(_) | End::Gone => return None,
            };
            if !readable.ok()? {
                continue;
            }
            let into = &mut self.frame[self.filled..];
            let read = match &self.end {
                End::Server(pipe) => pipe.try_read(into),
                End::Client(pipe) => pipe.try_read(into),
                End::Listening(_) | End::Gone => return None,
            };
            match read {
                Ok(0) => return None,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
            if self.filled == FRAME {
                self.filled = 0;
                return decode(self.frame);
            }
        }
    }

    async fn connect(&mut self) -> Option<()> {
        if let End::Listening(pipe) = &self.end {
            let connected = pipe.connect().await;
            let End::Listening(pipe) = std::mem::replace(&mut self.end, End::Gone) else {
                return None;
            };
            connected.ok()?;
            self.end = End::Server(pipe);
        }
        Some(())
    }

    /// Sends a message, and does not wait. `receive` sends what the pipe does not take at once.
    pub(in crate::supervise) fn send(&mut self, message: impl Message) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(encode(message));
        }
        self.flush();
    }

    /// Sends what the pipe takes now.
    fn flush(&mut self) {
        while let Some(frame) = self.waiting.front() {
            let rest = &frame[self.sent..];
            let written = match &self.end {
                End::Server(pipe) => pipe.try_write(rest),
                End::Client(pipe) => pipe.try_write(rest),
                End::Listening(_) | End::Gone => return,
            };
            match written {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody reads any more. What the other side has sent can still be read.
                Err(_) => {
                    self.sent = 0;
                    return self.waiting.clear();
                }
            }
            if self.sent == FRAME {
                self.sent = 0;
                self.waiting.pop_front();
            }
        }
    }

    /// Waits until the pipe has taken all, or the other side is gone.
    pub(super) async fn flushed(&mut self) {
        while !self.waiting.is_empty() {
            let ready = match &self.end {
                End::Server(pipe) => pipe.writable().await,
                End::Client(pipe) => pipe.writable().await,
                End::Listening(_) | End::Gone => return,
            };
            if ready.is_err() {
                return;
            }
            self.flush();
            tokio::task::yield_now().await;
        }
    }
}
