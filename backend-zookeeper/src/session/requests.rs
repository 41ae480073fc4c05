//! Reads and writes of a session, each with a time limit.

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use tokio::time::timeout;
use zookeeper_client::{
    CreateMode, Error as Refusal, MultiReadResult, MultiWriteResult, MultiWriter, OneshotWatcher,
    Stat,
};

use super::session::Session;
use crate::{
    error::{Failure, late, of_read, of_write, of_writes},
    keys::layout::parent,
};

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read<'a> {
    Data(&'a str),
    Children(&'a str),
}

/// What was read.
#[derive(Debug)]
pub(crate) enum ReadResult {
    Data(Vec<u8>, Stat),
    Children(Vec<String>),
    Missing,
}

/// One step of a write. All steps of a write are carried out, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write<'a> {
    Create(&'a str, &'a [u8], CreateMode),
    /// Changes the data if they have this version.
    Put(&'a str, &'a [u8], i32),
    /// Deletes the node, if its data have this version.
    Delete(&'a str, Option<i32>),
    /// The data have this version.
    Unchanged(&'a str, i32),
}

/// What a write has made.
#[derive(Debug)]
pub(crate) enum WriteResult {
    Node(String, Option<Stat>),
    Data(Stat),
    Nothing,
}

impl WriteResult {
    pub(super) fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Node(_, stat) => stat.as_ref(),
            Self::Data(stat) => Some(stat),
            Self::Nothing => None,
        }
    }
}

impl ReadResult {
    pub(crate) fn data(self) -> Option<(Vec<u8>, Stat)> {
        match self {
            Self::Data(data, stat) => Some((data, stat)),
            _ => None,
        }
    }

    pub(crate) fn children(self) -> Vec<String> {
        match self {
            Self::Children(children) => children,
            _ => Vec::new(),
        }
    }
}

impl Session {
    /// Reads several nodes at one point in time.
    pub(crate) async fn read<const N: usize>(
        &self,
        asked: [Read<'_>; N],
    ) -> Result<[ReadResult; N], Error> {
        self.read_all(&asked).await?.try_into().map_err(|_| incomplete())
    }

    /// As [`read`](Self::read), for any number of nodes.
    pub(crate) async fn read_all(&self, asked: &[Read<'_>]) -> Result<Vec<ReadResult>, Error> {
        let client = self.client()?;
        let mut reader = client.new_multi_reader();
        for ask in asked {
            match ask {
                Read::Data(path) => reader.add_get_data(path),
                Read::Children(path) => reader.add_get_children(path),
            }
            .map_err(of_read)?;
        }
        let answer = timeout(self.limit, reader.commit()).await;
        let answer = answer.map_err(|_| late(ErrorKind::Unavailable, self.limit))?;
        let found = answer.map_err(of_read)?.into_iter().map(|found| match found {
            MultiReadResult::Data { data, stat } => Ok(ReadResult::Data(data, stat)),
            MultiReadResult::Children { children } => Ok(ReadResult::Children(children)),
            MultiReadResult::Error { err: Refusal::NoNode } => Ok(ReadResult::Missing),
            MultiReadResult::Error { err } => Err(of_read(err)),
            _ => Err(Error::new(ErrorKind::Unavailable, "an answer that is not known here")),
        });
        let found = found.collect::<Result<Vec<_>, _>>()?;
        match found.len() == asked.len() {
            true => Ok(found),
            false => Err(incomplete()),
        }
    }

    /// Reads the data of one node.
    pub(crate) async fn read_one(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Error> {
        let [found] = self.read([Read::Data(path)]).await?;
        Ok(found.data())
    }

    /// Lists the children of a node. A missing node has none.
    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        let [found] = self.read([Read::Children(path)]).await?;
        Ok(found.children())
    }

    /// Writes in one step.
    pub(crate) async fn write(&self, steps: &[Write<'_>]) -> Result<Vec<WriteResult>, Failure> {
        let sent = SystemEnv.now();
        let answer = timeout(self.limit, self.send(steps)).await;
        let made = answer.map_err(|_| late(ErrorKind::OutcomeUnknown, self.limit))??;
        // A write whose answer shows no epoch does not count.
        if let Some(stat) = made.iter().find_map(WriteResult::stat) {
            self.wrote(sent, stat);
        }
        Ok(made)
    }

    async fn send(&self, steps: &[Write<'_>]) -> Result<Vec<WriteResult>, Failure> {
        let (client, acls) = (self.client()?, self.access.acls());
        // A single step costs the server less. In the answer to several, a create of a server
        // before 3.9 has no stat.
        let made = match steps {
            [Write::Create(path, data, mode)] => {
                let made = client.create(path, data, &mode.with_acls(acls)).await;
                made.map(|(stat, number)| {
                    let number = match *mode == CreateMode::EphemeralSequential {
                        true => format!("{:010}", number.into_i64()),
                        false => String::new(),
                    };
                    WriteResult::Node(format!("{path}{number}"), Some(stat))
                })
            }
            [Write::Put(path, data, version)] => {
                client.set_data(path, data, Some(*version)).await.map(WriteResult::Data)
            }
            [Write::Delete(path, version)] => {
                client.delete(path, *version).await.map(|()| WriteResult::Nothing)
            }
            _ => {
                let mut writer = client.new_multi_writer();
                for step in steps {
                    add(&mut writer, step, acls).map_err(of_write)?;
                }
                let made = writer.commit().await.map_err(of_writes)?;
                return Ok(made.into_iter().map(read_made).collect());
            }
        };
        Ok(vec![made.map_err(of_write)?])
    }

    /// Deletes a node, if its data have this version. `false` if others have changed or deleted it.
    pub(crate) async fn delete(&self, path: &str, version: Option<i32>) -> Result<bool, Error> {
        match self.write(&[Write::Delete(path, version)]).await {
            Ok(_) => Ok(true),
            Err(Failure::Refused(_, Refusal::NotEmpty)) => {
                let message = format!("the node {path} has children; remove it by hand");
                Err(Error::new(ErrorKind::Config, message))
            }
            Err(failure) if failure.is_changed() => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Makes a node, and its parents if they are missing. `None` if it exists.
    pub(crate) async fn make(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<Option<WriteResult>, Error> {
        loop {
            match self.write(&[Write::Create(path, data, mode)]).await {
                Ok(made) => return Ok(made.into_iter().next()),
                Err(failure) if failure.is_no_node() => {
                    Box::pin(self.make(parent(path), &[], CreateMode::Persistent)).await?;
                }
                Err(failure) if failure.is_changed() => return Ok(None),
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// A watch that ends when the node is deleted or changed. `None` if it is missing.
    pub(crate) async fn watch(&self, path: &str) -> Result<Option<OneshotWatcher>, Error> {
        let client = self.client()?;
        let answer = timeout(self.limit, client.check_and_watch_stat(path)).await;
        let answer = answer.map_err(|_| late(ErrorKind::Unavailable, self.limit))?;
        let (stat, watcher) = answer.map_err(of_read)?;
        Ok(stat.map(|_| watcher))
    }
}

fn incomplete() -> Error {
    Error::new(ErrorKind::Unavailable, "the answer to a read is incomplete")
}

fn add(
    writer: &mut MultiWriter<'_>,
    step: &Write<'_>,
    acls: zookeeper_client::Acls<'_>,
) -> Result<(), Refusal> {
    match step {
        Write::Create(path, data, mode) => writer.add_create(path, data, &mode.with_acls(acls)),
        Write::Put(path, data, version) => writer.add_set_data(path, data, Some(*version)),
        Write::Delete(path, version) => writer.add_delete(path, *version),
        Write::Unchanged(path, version) => writer.add_check_version(path, *version),
    }
}

fn read_made(made: MultiWriteResult) -> WriteResult {
    match made {
        // Some servers send an empty one.
        MultiWriteResult::Create { path, stat } => {
            WriteResult::Node(path, Some(stat).filter(|stat| stat.mtime > 0))
        }
        MultiWriteResult::SetData { stat } => WriteResult::Data(stat),
        _ => WriteResult::Nothing,
    }
}
