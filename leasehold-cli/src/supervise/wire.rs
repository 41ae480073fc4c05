//! The messages between leasehold and the job reaper.
//!
//! Both sides are the same executable, so the protocol needs no version. A frame has nine bytes: a tag and a number. The first
//! message, the greeting, carries the job's standard input as a file descriptor. The socket itself is the job reaper's standard
//! input, which is the only way to give a descriptor to a child without `unsafe` and without leaking it further.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::net::UnixStream;

const FRAME: usize = 9;

/// Orders of leasehold to the job reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Pass this signal on to the job.
    Forward(i32),
    /// End the whole job: SIGTERM, this grace time, SIGKILL.
    End(Duration),
    /// Exit. COMMAND has ended.
    Done,
}

/// Reports of the job reaper to leasehold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// COMMAND runs under this process id.
    Started(u32),
    /// No process could be started, with this error number.
    Failed(i32),
    /// COMMAND ended with this code.
    Exited(u8),
    /// COMMAND was ended by this signal.
    Signalled(i32),
    /// The order to end the job is carried out. This many processes have survived.
    Gone(u64),
}

/// A message that fits into a frame.
pub(super) trait Message: Sized {
    /// Tag and number.
    fn parts(self) -> (u8, u64);
    /// The message with this tag and number; `None` if there is none.
    fn from_parts(tag: u8, number: u64) -> Option<Self>;
}

impl Message for Order {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Forward(signal) => (1, signal as u64),
            Self::End(grace) => (2, u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
            Self::Done => (3, 0),
        }
    }

    fn from_parts(tag: u8, number: u64) -> Option<Self> {
        match tag {
            1 => Some(Self::Forward(number as i32)),
            2 => Some(Self::End(Duration::from_millis(number))),
            3 => Some(Self::Done),
            _ => None,
        }
    }
}

impl Message for Report {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Started(pid) => (1, pid.into()),
            Self::Failed(errno) => (2, errno as u64),
            Self::Exited(code) => (3, code.into()),
            Self::Signalled(signal) => (4, signal as u64),
            Self::Gone(left) => (5, left),
        }
    }

    fn from_parts(tag: u8, number: u64) -> Option<Self> {
        match tag {
            1 => Some(Self::Started(number as u32)),
            2 => Some(Self::Failed(number as i32)),
            3 => Some(Self::Exited(number as u8)),
            4 => Some(Self::Signalled(number as i32)),
            5 => Some(Self::Gone(number)),
            _ => None,
        }
    }
}

/// One end of the socket, after the greeting.
pub(super) struct Wire {
    stream: UnixStream,
    // A partly received frame is kept here and not in `receive`, because `select!` may drop its future at any time.
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
    pub(super) async fn receive<M: Message>(&mut self) -> Option<M> {
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

    /// Sends a message. It is not an error here if the other side is gone: `receive` notices that.
    pub(super) async fn send(&self, message: impl Message) {
        let frame = encode(message);
        let mut rest = &frame[..];
        while !rest.is_empty() {
            if self.stream.writable().await.is_err() {
                return;
            }
            match self.stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

/// Sends the greeting: which process group to join (`None`: lead one), and standard input.
pub(super) fn greet(to: &StdStream, group: Option<u32>, stdin: impl AsFd) -> io::Result<()> {
    let frame = u64::from(group.unwrap_or(0)).to_le_bytes();
    let fds = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(&frame)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the greeting. It is an error if leasehold has already ended.
pub(super) fn greeted(from: &StdStream) -> io::Result<(Option<u32>, OwnedFd)> {
    let mut frame = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let read = recvmsg(from, &mut [IoSliceMut::new(&mut frame)], &mut ancillary, flags)?.bytes;
    let stdin = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match (read, stdin) {
        (8, Some(stdin)) => {
            let group = u64::from_le_bytes(frame) as u32;
            Ok(((group != 0).then_some(group), stdin))
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn encode(message: impl Message) -> [u8; FRAME] {
    let (tag, number) = message.parts();
    let mut frame = [0; FRAME];
    frame[0] = tag;
    frame[1..].copy_from_slice(&number.to_le_bytes());
    frame
}

fn decode<M: Message>(frame: [u8; FRAME]) -> Option<M> {
    let [tag, number @ ..] = frame;
    M::from_parts(tag, u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        for order in [Order::Forward(15), Order::End(Duration::from_secs(10)), Order::Done] {
            assert_eq!(decode(encode(order)), Some(order));
        }
        for report in [
            Report::Started(4_000_000),
            Report::Failed(11),
            Report::Exited(255),
            Report::Signalled(9),
            Report::Gone(3),
        ] {
            assert_eq!(decode(encode(report)), Some(report));
        }
        assert_eq!(decode::<Order>([0; FRAME]), None);
    }

    #[test]
    fn an_endless_grace_does_not_wrap() {
        let order = Order::End(Duration::MAX);
        assert_eq!(decode(encode(order)), Some(Order::End(Duration::from_millis(u64::MAX))));
    }
}
