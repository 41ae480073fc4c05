//! The socket between leasehold and a helper process.
//!
//! The first message, the greeting, carries the job's standard input as a file descriptor. The
//! socket itself is the helper's standard input, which is the only way to give a descriptor to a
//! child without `unsafe` and without leaking it further.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage, recvmsg,
    send, sendmsg,
};
use tokio::net::UnixStream;

use super::kernel::{RECEIVE, SEND};
use crate::supervise::deadline::Deadline;
use crate::supervise::messages::{FRAME, Message, deadline, decode, encode, numbers};

/// One end of the socket, after the greeting.
pub(in crate::supervise) struct Wire {
    stream: UnixStream,
    // A partly received frame is kept here and not in `receive`, because `select!` may drop its
    // future at any time.
    frame: [u8; FRAME],
    filled: usize,
}

impl Wire {
    pub(super) fn new(stream: StdStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        Ok(Self { stream, frame: [0; FRAME], filled: 0 })
    }

    /// The next message; `None` once the other side is gone. Cancel safe.
    pub(in crate::supervise) async fn receive<M: Message>(&mut self) -> Option<M> {
        loop {
            self.stream.readable().await.ok()?;
            match self.stream.try_read(&mut self.frame[self.filled..]) {
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

    /// Sends a message, and does not wait. A message is lost if the other side is gone, which
    /// `receive` notices, or if it has not read hundreds of messages, which no answer comes to.
    pub(in crate::supervise) fn send(&self, message: impl Message) {
        // The kernel takes a frame as a whole or not at all: it is far smaller than a buffer.
        let _ = send(&self.stream, &encode(message), SEND);
    }
}

/// What the job reaper learns before it starts COMMAND.
#[derive(Debug)]
pub(super) struct Greeting<Fd> {
    /// The process group that COMMAND joins; `None`: it leads one.
    pub(super) group: Option<u32>,
    /// When the job must end, unless a renewal is confirmed.
    pub(super) deadline: Deadline,
    /// COMMAND's standard input.
    pub(super) stdin: Fd,
}

/// The bytes of the greeting: the group and the deadline.
const GREETING: usize = 24;

/// Sends the greeting.
pub(super) fn greet(to: &StdStream, greeting: &Greeting<impl AsFd>) -> io::Result<()> {
    let [term, kill] = numbers(greeting.deadline);
    let numbers = [u64::from(greeting.group.unwrap_or(0)), term, kill];
    let bytes = numbers.map(u64::to_le_bytes);
    let fds = [greeting.stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(bytes.as_flattened())], &mut ancillary, SEND)?;
    Ok(())
}

/// Waits for the greeting. It is an error if leasehold has already ended.
pub(super) fn greeted(from: &StdStream) -> io::Result<Greeting<OwnedFd>> {
    let mut bytes = [[0; 8]; GREETING / 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(bytes.as_flattened_mut())];
    let read = recvmsg(from, &mut into, &mut ancillary, RECEIVE)?.bytes;
    let stdin = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let [group, term, kill] = bytes.map(u64::from_le_bytes);
    match (read, stdin) {
        (GREETING, Some(stdin)) => {
            let group = (group != 0).then_some(group as u32);
            Ok(Greeting { group, deadline: deadline([term, kill]), stdin })
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::messages::Order;

    /// A side that is stopped must not stop the other one.
    #[tokio::test]
    async fn sending_does_not_wait_for_a_reader() {
        let (ours, theirs) = StdStream::pair().unwrap();
        let wire = Wire::new(ours).unwrap();
        // The kernel keeps a few hundred messages.
        for _ in 0..100_000 {
            wire.send(Order::Forward(28));
        }
        let mut reader = Wire::new(theirs).unwrap();
        drop(wire);
        // No message was cut.
        while let Some(order) = reader.receive::<Order>().await {
            assert_eq!(order, Order::Forward(28));
        }
        assert_eq!(reader.filled, 0);
    }
}
