//! The data that the locks of a run protect: registers with a number, in the parent's memory. Each
//! name has one register behind a [`Fence`], one behind the store's own fence if it has one, and
//! one without a fence. The client processes read and write them over a socket.
//!
//! The register itself records the writes, so that the write of a process that was killed right
//! after it is known, too. A read also checks the token: after a later holder has read, no older
//! holder can write.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use lock_core::{Env as _, Fence, FencingToken, Instant, Mutex, SystemEnv};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::proof::clients::record::Record;
use crate::proof::plan::system_under_test::OwnFence;
use conformance_tests::history::{Event, Op, What};

/// Which fence protects a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Fenced,
    Own,
    Unfenced,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Fenced, Self::Own, Self::Unfenced];

    fn word(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Own => "own",
            Self::Unfenced => "unfenced",
        }
    }
}

/// A request of a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ask {
    resource: String,
    kind: Kind,
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

/// The value, or `None` if the fence refused the token.
type Answer = Option<u64>;

#[derive(Debug, Default)]
struct Values {
    fence: Fence,
    values: Mutex<HashMap<String, u64>>,
}

impl Values {
    fn answer(&self, ask: Ask, record: &Record) -> Answer {
        let admitted = match ask.kind {
            Kind::Fenced => self.fence.admit(&ask.resource, ask.token).is_ok(),
            Kind::Own | Kind::Unfenced => true,
        };
        self.apply(ask, admitted, record)
    }

    fn apply(&self, ask: Ask, admitted: bool, record: &Record) -> Answer {
        let mut values = self.values.lock();
        let resource = format!("{} {}", ask.kind.word(), ask.resource);
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

/// Handles the requests to the store's own fence one after the other, so that admission and write
/// are one step.
async fn own(
    fence: Option<Arc<dyn OwnFence>>,
    values: Arc<Values>,
    record: Record,
    mut asks: mpsc::Receiver<(Ask, oneshot::Sender<Answer>)>,
) {
    while let Some((ask, answer)) = asks.recv().await {
        let Some(fence) = &fence else {
            // Without a value the client writes nothing.
            let _ = answer.send(None);
            continue;
        };
        match fence.admit(&ask.resource, ask.token).await {
            // The process that asked may have been killed.
            Ok(admitted) => drop(answer.send(values.apply(ask, admitted, &record))),
            // Without an answer the client process fails, and the run with it.
            Err(error) => eprintln!("the store's own fence: {error}"),
        }
    }
}

/// The registers of a run; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Registers {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
    own: JoinHandle<()>,
}

impl Registers {
    pub(crate) async fn start(
        record: Record,
        fence: Option<Arc<dyn OwnFence>>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let values = Arc::new(Values::default());
        let (asks, asked) = mpsc::channel(16);
        let own = tokio::spawn(own(fence, Arc::clone(&values), record.clone(), asked));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (values, record, asks) = (Arc::clone(&values), record.clone(), asks.clone());
                // A killed process may have sent half a line.
                tokio::spawn(async move { serve(stream, &values, &record, &asks).await.ok() });
            }
        });
        Ok(Self { address, task, own })
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        self.task.abort();
        self.own.abort();
    }
}

async fn serve(
    stream: TcpStream,
    values: &Values,
    record: &Record,
    asks: &mpsc::Sender<(Ask, oneshot::Sender<Answer>)>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let ask: Ask = serde_json::from_str(&line)?;
    let answer = if ask.kind == Kind::Own {
        let (answer, answered) = oneshot::channel();
        asks.send((ask, answer)).await.map_err(std::io::Error::other)?;
        answered.await.map_err(std::io::Error::other)?
    } else {
        values.answer(ask, record)
    };
    let text = serde_json::to_string(&answer)? + "\n";
    stream.get_mut().write_all(text.as_bytes()).await
}

/// The update of a holder that has read and not yet written.
#[derive(Debug)]
pub(crate) struct Update {
    address: SocketAddr,
    resource: String,
    op: Op,
    token: FencingToken,
    began: Instant,
    /// The value of each kind of register; `None` if the fence refused the token, or there is no
    /// such register.
    read: [Answer; 3],
}

impl Update {
    pub(crate) async fn begin(
        address: SocketAddr,
        resource: &str,
        op: Op,
        token: FencingToken,
    ) -> std::io::Result<Self> {
        let began = SystemEnv.now();
        let resource = resource.to_owned();
        let mut update = Self { address, resource, op, token, began, read: [None; 3] };
        for at in 0..Kind::ALL.len() {
            update.read[at] = update.ask(Kind::ALL[at], None).await?;
        }
        Ok(update)
    }

    /// Writes `value`, which is different for every update.
    pub(crate) async fn finish(self, value: u64) -> std::io::Result<()> {
        for (kind, read) in Kind::ALL.into_iter().zip(self.read) {
            if let Some(read) = read {
                let write = Write { op: self.op, began: self.began, read, value };
                self.ask(kind, Some(write)).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, kind: Kind, write: Option<Write>) -> std::io::Result<Answer> {
        let ask = Ask { resource: self.resource.clone(), kind, token: self.token, write };
        let mut stream = BufReader::new(TcpStream::connect(self.address).await?);
        let text = serde_json::to_string(&ask)? + "\n";
        stream.get_mut().write_all(text.as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        Ok(serde_json::from_str(&line)?)
    }
}
