//! The arguments of a script, in the form in which they are sent.

use std::{fmt, io::Write as _};

use redis::{RedisWrite, ToRedisArgs};

/// Checks at compile time that a script declares these arguments.
macro_rules! declared {
    ($script:literal: $($name:ident)* $(; $list:ident)?) => {
        const _: () = assert!(
            $crate::scripts::arguments::declares(
                include_str!($script),
                concat!($(" ", stringify!($name),)* $(" ", stringify!($list), "...")?)
            ),
            "the script declares other arguments"
        );
    };
}

/// Makes the arguments that a script declares, in the same order. A list of further ones, if the
/// script declares it, is for the caller to add. Without a list, empty ones at the end are left
/// out: see `text.rs`.
macro_rules! arguments {
    ($script:literal: $($name:ident $(= $value:expr)?),* $(; $list:ident)?) => {{
        declared!($script: $($name)* $(; $list)?);
        // Of most scripts.
        let mut arguments = Arguments::with_room(8, 240);
        $(arguments.add(arguments!(@ $name $($value)?));)*
        arguments!(# arguments $($list)?)
    }};
    (# $arguments:ident) => { $arguments.without_empty_end() };
    (# $arguments:ident $list:ident) => { $arguments };
    (@ $name:ident $value:expr) => { $value };
    (@ $name:ident) => { $name };
}

pub(super) use {arguments, declared};

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

    pub(crate) fn add(&mut self, argument: impl fmt::Display) -> &mut Self {
        // Writing to a vector never fails.
        write!(self.bytes, "{argument}").ok();
        self.ends.push(self.bytes.len());
        self
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

    pub(crate) fn without_empty_end(mut self) -> Self {
        // How many end before the last byte, and the one that has it.
        let used = self.ends.iter().filter(|end| **end < self.bytes.len()).count();
        self.ends.truncate(used + usize::from(!self.bytes.is_empty()));
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

/// Whether a script declares these arguments, each with a space in front.
pub const fn declares(script: &str, names: &str) -> bool {
    let (script, names) = (script.as_bytes(), names.as_bytes());
    let line = b" args:";
    let mut at = 0;
    while at + line.len() + names.len() < script.len() {
        let mut same = 0;
        while same < line.len() && script[at + same] == line[same] {
            same += 1;
        }
        if same == line.len() {
            let from = at + same;
            same = 0;
            while same < names.len() && script[from + same] == names[same] {
                same += 1;
            }
            return same == names.len() && script[from + same] == b'\n';
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_arguments_at_the_end_are_left_out() {
        for (all, sent) in [
            (&["a", "", "b", "", ""][..], &["a", "", "b"][..]),
            (&["a", "b"], &["a", "b"]),
            (&["", "a", ""], &["", "a"]),
            (&["", ""], &[]),
            (&[], &[]),
        ] {
            let all: Arguments = all.iter().map(|word| word.as_bytes()).collect();
            let words: Vec<_> = sent.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(all.without_empty_end().iter().collect::<Vec<_>>(), words);
        }
    }
}
