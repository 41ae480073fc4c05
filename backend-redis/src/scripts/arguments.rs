//! The arguments of a script, in the form in which they are sent.

use std::{fmt, io::Write as _};

pub(super) use lock_core::whole_millis as millis;
use lock_core::{FencingToken, Mode};
use redis::{RedisWrite, ToRedisArgs};

/// Arguments in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    /// The end of each argument in `bytes`.
    ends: Vec<usize>,
}

impl Arguments {
    /// Reserves room for `count` arguments of `bytes` bytes together.
    pub(crate) fn with_room(count: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Makes arguments of these values.
    pub(crate) fn of<const N: usize>(each: [&dyn fmt::Display; N]) -> Self {
        let mut arguments = Self::default();
        each.iter().for_each(|argument| _ = arguments.add(argument));
        arguments
    }

    pub(crate) fn add(&mut self, argument: impl fmt::Display) -> &mut Self {
        // Writing to a vector never fails.
        write!(self.bytes, "{argument}").ok();
        self.ends.push(self.bytes.len());
        self
    }

    /// Adds a floor, which also tells the mode of its request: a reader's floor has a 0 in front.
    /// So all queue entries have the same form, and a script of an older version that does not know
    /// readers hands the whole lock to it.
    pub(super) fn add_floor(&mut self, mode: Mode, floor: FencingToken) -> &mut Self {
        let zero = if mode == Mode::Shared { "0" } else { "" };
        self.add(format_args!("{zero}{floor}"))
    }

    pub(crate) fn add_bytes(&mut self, argument: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
        self
    }

    pub(crate) fn add_all(&mut self, others: &Self) -> &mut Self {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        self.ends.extend(others.ends.iter().map(|end| before + end));
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of bytes of all arguments together.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut from, *end)..*end])
    }
}

impl<'a> FromIterator<&'a [u8]> for Arguments {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(parts: I) -> Self {
        let mut arguments = Self::default();
        for part in parts {
            arguments.add_bytes(part);
        }
        arguments
    }
}

impl ToRedisArgs for Arguments {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        self.iter().for_each(|argument| out.write_arg(argument));
    }

    fn num_of_args(&self) -> usize {
        self.len()
    }
}
