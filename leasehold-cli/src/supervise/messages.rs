//! The messages between leasehold and a helper process.
//!
//! Both sides are the same executable, so the protocol needs no version. A frame is a tag and two
//! numbers. Either side may be stopped at any time, so no side ever waits until the other one
//! reads.

use std::time::Duration;

use leasehold::backend::Instant;

use super::deadline::Deadline;

/// The bytes of a tag and two numbers.
pub(super) const FRAME: usize = 17;

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

pub(super) fn numbers(deadline: Deadline) -> [u64; 2] {
    [deadline.term.as_nanos(), deadline.kill.as_nanos()]
}

pub(super) fn deadline([term, kill]: [u64; 2]) -> Deadline {
    Deadline { term: Instant::from_nanos(term), kill: Instant::from_nanos(kill) }
}

/// The frame of a message.
pub(super) fn encode(message: impl Message) -> [u8; FRAME] {
    let (tag, [first, second]) = message.parts();
    let mut frame = [0; FRAME];
    frame[0] = tag;
    frame[1..9].copy_from_slice(&first.to_le_bytes());
    frame[9..].copy_from_slice(&second.to_le_bytes());
    frame
}

/// The message in a frame; `None` if there is none.
pub(super) fn decode<M: Message>(frame: [u8; FRAME]) -> Option<M> {
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
}
