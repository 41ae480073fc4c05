//! The messages between leasehold and the job reaper.
//!
//! Both sides are the same executable, so the protocol needs no version. A frame is a tag and two
//! numbers. The first message, the greeting, carries the job's standard input as a file descriptor.
//! The socket itself is the job reaper's standard input, which is the only way to give a descriptor
//! to a child without `unsafe` and without leaking it further.
//!
//! Either side may be stopped at any time, so no side ever waits until the other one reads.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use leasehold::backend::Instant;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use tokio::net::UnixStream;

use super::deadline::Deadline;

/// The bytes of a tag and two numbers.
const FRAME: usize = 17;

/// Orders of leasehold to the job reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Pass this signal on to the job.
    Forward(i32),
    /// A renewal was confirmed: the job must now end by this deadline. Answered by `Noted`.
    Extend(Deadline),
    /// End the whole job: SIGTERM, this grace time, SIGKILL. Answered by `Gone`.
    End(Duration),
    /// Kill the whole job. Answered by COMMAND's end.
    Kill,
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
    /// The deadline is set.
    Noted,
    /// COMMAND ended with this code.
    Exited(u8),
    /// COMMAND was ended by this signal.
    Signalled(i32),
    /// No renewal came in time, so the job reaper has sent SIGTERM. `Gone` follows.
    Ending,
    /// All processes were ended. This many have survived.
    Gone(u64),
}

/// A message that fits into a frame.
pub(super) trait Message: Sized {
    /// Tag and numbers.
    fn parts(self) -> (u8, [u64; 2]);
    /// The message with this tag and these numbers; `None` if there is none.
    fn from_parts(tag: u8, numbers: [u64; 2]) -> Option<Self>;
}

impl Message for Order {
    fn parts(self) -> (u8, [u64; 2]) {
        match self {
            Self::Forward(signal) => (1, [signal as u64, 0]),
            Self::Extend(deadline) => (2, numbers(deadline)),
            Self::End(grace) => (3, [u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX), 0]),
            Self::Kill => (4, [0; 2]),
            Self::Done => (5, [0; 2]),
        }
    }

    fn from_parts(tag: u8, numbers: [u64; 2]) -> Option<Self> {
        let [first, _] = numbers;
        match tag {
            1 => Some(Self::Forward(first as i32)),
            2 => Some(Self::Extend(deadline(numbers))),
            3 => Some(Self::End(Duration::from_nanos(first))),
            4 => Some(Self::Kill),
            5 => Some(Self::Done),
            _ => None,
        }
    }
}

impl Message for Report {
    fn parts(self) -> (u8, [u64; 2]) {
        let (tag, number) = match self {
            Self::Started(pid) => (1, pid.into()),
            Self::Failed(errno) => (2, errno as u64),
            Self::Noted => (3, 0),
            Self::Exited(code) => (4, code.into()),
            Self::Signalled(signal) => (5, signal as u64),
            Self::Ending => (6, 0),
            Self::Gone(left) => (7, left),
        };
        (tag, [number, 0])
    }

    fn from_parts(tag: u8, [number, _]: [u64; 2]) -> Option<Self> {
        match tag {
            1 => Some(Self::Started(number as u32)),
            2 => Some(Self::Failed(number as i32)),
            3 => Some(Self::Noted),
            4 => Some(Self::Exited(number as u8)),
            5 => Some(Self::Signalled(number as i32)),
            6 => Some(Self::Ending),
            7 => Some(Self::Gone(number)),
            _ => None,
        }
    }
}

fn numbers(deadline: Deadline) -> [u64; 2] {
    [deadline.term.as_nanos(), deadline.kill.as_nanos()]
}

fn deadline([term, kill]: [u64; 2]) -> Deadline {
    Deadline { term: Instant::from_nanos(term), kill: Instant::from_nanos(kill) }
}

/// One end of the socket, after the greeting.
pub(super) struct Wire {
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

    /// Sends a message, and does not wait. A message is lost if the other side is gone, which
    /// `receive` notices, or if it has not read hundreds of messages, which no answer comes to.
    pub(super) fn send(&self, message: impl Message) {
        // The kernel takes a frame as a whole or not at all: it is far smaller than a buffer.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.stream, &encode(message), flags);
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
    sendmsg(to, &[IoSlice::new(bytes.as_flattened())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the greeting. It is an error if leasehold has already ended.
pub(super) fn greeted(from: &StdStream) -> io::Result<Greeting<OwnedFd>> {
    let mut bytes = [[0; 8]; GREETING / 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let mut into = [IoSliceMut::new(bytes.as_flattened_mut())];
    let read = recvmsg(from, &mut into, &mut ancillary, flags)?.bytes;
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

fn encode(message: impl Message) -> [u8; FRAME] {
    let (tag, [first, second]) = message.parts();
    let mut frame = [0; FRAME];
    frame[0] = tag;
    frame[1..9].copy_from_slice(&first.to_le_bytes());
    frame[9..].copy_from_slice(&second.to_le_bytes());
    frame
}

fn decode<M: Message>(frame: [u8; FRAME]) -> Option<M> {
    let (tag, numbers) = frame.split_first()?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let [first, second] = numbers else { return None };
    M::from_parts(*tag, [u64::from_le_bytes(*first), u64::from_le_bytes(*second)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        let deadline =
            Deadline { term: Instant::from_nanos(u64::MAX - 1), kill: Instant::from_nanos(7) };
        for order in [
            Order::Forward(15),
            Order::Extend(deadline),
            Order::End(Duration::from_secs(10)),
            Order::Kill,
            Order::Done,
        ] {
            assert_eq!(decode(encode(order)), Some(order));
        }
        for report in [
            Report::Started(4_000_000),
            Report::Failed(11),
            Report::Noted,
            Report::Exited(255),
            Report::Signalled(9),
            Report::Ending,
            Report::Gone(3),
        ] {
            assert_eq!(decode(encode(report)), Some(report));
        }
        assert_eq!(decode::<Order>([0; FRAME]), None);
        assert_eq!(decode::<Report>([0; FRAME]), None);
    }

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
