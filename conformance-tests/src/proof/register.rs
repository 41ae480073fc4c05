//! What the locks of a run protect: numbers in the parent's memory, one behind a [`Fence`] and one
//! without for each name, read and written by the children over a socket.
//!
//! The register itself records the writes, so that one whose writer was killed right after it is known
//! too. A read offers the token as well: once a later holder has read, no older one can write.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use lock_core::{Env as _, Fence, FencingToken, Instant, SystemEnv};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::record::Record;
use crate::history::{Event, Op, What};

/// What a child asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ask {
    resource: String,
    fenced: bool,
    token: FencingToken,
    /// `None` reads.
    write: Option<Write>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Write {
    op: Op,
    began: Instant,
    read: u64,
    value: u64,
}

/// The value, or `None` if the token was refused.
type Answer = Option<u64>;

#[derive(Debug, Default)]
struct Values {
    fence: Fence,
    values: Mutex<HashMap<String, u64>>,
}

impl Values {
    fn answer(&self, ask: Ask, record: &Record) -> Answer {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if ask.fenced { "fenced" } else { "unfenced" };
        let resource = format!("{kind} {}", ask.resource);
        let admitted = !ask.fenced || self.fence.admit(&resource, ask.token).is_ok();
        let value = values.entry(resource.clone()).or_default();
        if let Some(Write { op, began, read, value: wrote }) = ask.write {
            if admitted {
                *value = wrote;
            }
            let what = What::Updated { resource, token: ask.token, began, read, wrote, admitted };
            record.add(Event { at: SystemEnv.now(), op, what });
        }
        admitted.then_some(*value)
    }
}

/// The registers of a run; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Registers {
    pub(super) async fn start(record: Record) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let values = Arc::new(Values::default());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (values, record) = (Arc::clone(&values), record.clone());
                // A child that is killed leaves half of a line: its affair.
                tokio::spawn(async move { serve(stream, &values, &record).await.ok() });
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, values: &Values, record: &Record) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let answer = values.answer(serde_json::from_str(&line)?, record);
    let text = serde_json::to_string(&answer)? + "\n";
    stream.get_mut().write_all(text.as_bytes()).await
}

/// A holder's half-done update: it has read.
#[derive(Debug)]
pub(super) struct Update {
    address: SocketAddr,
    resource: String,
    op: Op,
    token: FencingToken,
    began: Instant,
    /// With and without a fence; `None` where the token was refused.
    read: [Answer; 2],
}

impl Update {
    pub(super) async fn begin(
        address: SocketAddr,
        resource: &str,
        op: Op,
        token: FencingToken,
    ) -> std::io::Result<Self> {
        let began = SystemEnv.now();
        let resource = resource.to_owned();
        let mut update = Self { address, resource, op, token, began, read: [None; 2] };
        update.read = [update.ask(true, None).await?, update.ask(false, None).await?];
        Ok(update)
    }

    /// Writes what was made of the values read. `value` is different for every update.
    pub(super) async fn finish(self, value: u64) -> std::io::Result<()> {
        for (fenced, read) in [(true, self.read[0]), (false, self.read[1])] {
            if let Some(read) = read {
                let write = Write { op: self.op, began: self.began, read, value };
                self.ask(fenced, Some(write)).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, fenced: bool, write: Option<Write>) -> std::io::Result<Answer> {
        let ask = Ask { resource: self.resource.clone(), fenced, token: self.token, write };
        let mut stream = BufReader::new(TcpStream::connect(self.address).await?);
        let text = serde_json::to_string(&ask)? + "\n";
        stream.get_mut().write_all(text.as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        Ok(serde_json::from_str(&line)?)
    }
}
