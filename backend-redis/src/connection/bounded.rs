//! Limits the size of the server's answers: each is measured before the redis crate reads it.
//!
//! The redis crate buffers an answer until it is complete, whatever length the server announces,
//! also before the login. So a wrong or hostile server could use up the memory of this process.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use lock_core::{Env as _, OncePer, SystemEnv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::tunables::{ANSWER, ANSWER_BEFORE_LOGIN, DEEPEST_ANSWER, LONGEST_LINE};

/// How much of a line is kept: more than any number that a server has reason to send.
const LONGEST_NUMBER: usize = 32;

/// The limits of one answer.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: u64,
    /// The number of parts is limited too: a part of three bytes takes many times as much in the
    /// redis crate.
    parts: u64,
}

/// Limits the lines about such answers: a client may connect again and again.
static GIVEN_UP: OncePer = OncePer::minute();

const BEFORE: Limit = Limit { bytes: ANSWER_BEFORE_LOGIN.0, parts: ANSWER_BEFORE_LOGIN.1 };
const AFTER: Limit = Limit { bytes: ANSWER.0, parts: ANSWER.1 };

/// A stream whose answers have a size limit.
#[derive(Debug)]
pub(crate) struct Bounded<S> {
    stream: S,
    meter: Meter,
    progress: Arc<Progress>,
}

/// How far a connection has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Set by the caller after the login. It raises the limit.
    pub(crate) logged_in: AtomicBool,
    /// How many bytes have come from the server.
    pub(crate) received: AtomicU64,
}

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<Progress>) {
        let progress = Arc::<Progress>::default();
        (Self { stream, meter: Meter::default(), progress: Arc::clone(&progress) }, progress)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let came = (buffer.filled().len() - before) as u64;
        self.progress.received.fetch_add(came, Ordering::Relaxed);
        let limit = if self.progress.logged_in.load(Ordering::Relaxed) { AFTER } else { BEFORE };
        let measured = self.meter.measure(&buffer.filled()[before..], limit);
        // The redis crate tells its callers only that the connection broke.
        Poll::Ready(measured.inspect_err(|error| {
            if GIVEN_UP.is_due(SystemEnv.now()) {
                tracing::warn!(target: "leasehold", %error, "the connection is given up");
            }
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Follows answers of RESP3 from part to part.
#[derive(Debug, Default)]
struct Meter {
    /// How many bytes of the present answer have arrived.
    bytes: u64,
    parts: u64,
    /// How many bytes of a text are still to come, with its end of line.
    text: u64,
    /// The beginning of the line that stands before a text or a list, or is a part itself; and its
    /// last byte.
    line: Vec<u8>,
    length: usize,
    last: u8,
    /// How many parts each open list still lacks, the innermost list last.
    lists: Vec<u64>,
}

impl Meter {
    fn measure(&mut self, mut bytes: &[u8], limit: Limit) -> io::Result<()> {
        while !bytes.is_empty() {
            let step = if self.text > 0 {
                let step = self.text.min(bytes.len() as u64);
                self.text -= step;
                if self.text == 0 {
                    self.complete();
                }
                step as usize
            } else {
                self.read_line(bytes, limit)?
            };
            if self.line.is_empty() && self.text == 0 && self.lists.is_empty() {
                (self.bytes, self.parts) = (0, 0);
            } else {
                self.bytes += step as u64;
            }
            if self.bytes > limit.bytes || self.parts > limit.parts {
                return Err(too_long(limit));
            }
            bytes = &bytes[step..];
        }
        Ok(())
    }

    /// Reads up to the end of a line. Returns how many bytes that was.
    fn read_line(&mut self, bytes: &[u8], limit: Limit) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let read = end.map_or(bytes.len(), |at| at + 1);
        let room = LONGEST_NUMBER.saturating_sub(self.line.len());
        self.line.extend(&bytes[..read.min(room)]);
        self.length += read;
        if self.length > LONGEST_LINE {
            return Err(too_long(limit));
        }
        let before = if read > 1 { bytes[read - 2] } else { self.last };
        self.last = bytes[read - 1];
        if end.is_some() && before == b'\r' {
            let line = std::mem::take(&mut self.line);
            (self.length, self.last) = (0, 0);
            self.begin(&line, limit)?;
        }
        Ok(read)
    }

    /// Begins the text or list that a line announces.
    fn begin(&mut self, line: &[u8], limit: Limit) -> io::Result<()> {
        self.parts += 1;
        // The redis crate would read a longer number than this buffer holds.
        if line.len() == LONGEST_NUMBER && b"$=!*~>%|".contains(&line[0]) {
            return Err(too_long(limit));
        }
        let number = std::str::from_utf8(&line[1..]).ok();
        let number = number.and_then(|text| text.trim().parse::<i64>().ok()).unwrap_or(0);
        let count = u64::try_from(number).ok();
        let lacking = match line[0] {
            b'$' | b'=' | b'!' => {
                match count {
                    Some(count) if count > limit.bytes => return Err(too_long(limit)),
                    Some(count) => self.text = count + 2,
                    None if line[0] == b'$' => self.complete(),
                    // The redis crate takes a missing length for the greatest one.
                    None => return Err(too_long(limit)),
                }
                return Ok(());
            }
            b'*' | b'~' | b'>' => count.unwrap_or(0),
            b'%' => count.unwrap_or(0).saturating_mul(2),
            // Attributes stand before the part that they describe.
            b'|' => count.unwrap_or(0).saturating_mul(2).saturating_add(1),
            // The redis crate refuses what it does not know.
            _ => 0,
        };
        if lacking > limit.parts || self.lists.len() >= DEEPEST_ANSWER {
            return Err(too_long(limit));
        }
        if lacking == 0 {
            self.complete();
        } else {
            self.lists.push(lacking);
        }
        Ok(())
    }

    /// A part is complete, and with it all lists of which it is the last part.
    fn complete(&mut self) {
        while let Some(lacking) = self.lists.last_mut() {
            *lacking -= 1;
            if *lacking > 0 {
                return;
            }
            self.lists.pop();
        }
    }
}

fn too_long(limit: Limit) -> io::Error {
    let Limit { bytes, parts } = limit;
    io::Error::other(format!(
        "the server's answer is too long; must be at most {bytes} bytes and {parts} parts, and a line at most \
         {LONGEST_LINE} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use lock_core::test_util::soup;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const SMALL: Limit = Limit { bytes: 100, parts: 10 };

    /// Whether the meter waits for the rest of an answer.
    fn waits(meter: &Meter) -> bool {
        meter.bytes > 0
    }

    #[test]
    fn the_end_of_an_answer_is_where_the_driver_finds_it() {
        for answer in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-5\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$8\r\na\r\nb*9\r\n\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n_\r\n",
            "~2\r\n#t\r\n,1.5\r\n",
            ">3\r\n+message\r\n$1\r\nc\r\n$1\r\nm\r\n",
            "=5\r\ntxt:x\r\n",
            "!5\r\nERR x\r\n",
            "(12345678901234567890123456789012345678901234567890\r\n",
            "|1\r\n+ttl\r\n:3\r\n*1\r\n:1\r\n",
            "+a\nb\r\n",
        ] {
            redis::parse_redis_value(answer.as_bytes()).unwrap();
            for chunk in [1, 2, 3, answer.len()] {
                let mut meter = Meter::default();
                for _ in 0..50 {
                    let chunks = answer.as_bytes().chunks(chunk).enumerate();
                    for (at, bytes) in chunks {
                        meter.measure(bytes, SMALL).unwrap();
                        let ended = (at + 1) * chunk >= answer.len();
                        assert_ne!(waits(&meter), ended, "{answer:?} by {chunk} at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused_as_soon_as_it_shows() {
        let long = format!("+{}", "x".repeat(100));
        let many = format!("*9\r\n{}", "*1\r\n_\r\n".repeat(6));
        let deep = "*1\r\n".repeat(DEEPEST_ANSWER + 1);
        let line = format!("+{}", "x".repeat(LONGEST_LINE));
        let loose = Limit { bytes: 10_000, parts: 1_000 };
        for (answer, limit) in [
            ("$101\r\n", SMALL),
            ("=9223372036854775807\r\n", SMALL),
            ("*11\r\n", SMALL),
            ("%6\r\n", SMALL),
            ("%9223372036854775807\r\n", SMALL),
            ("|9223372036854775807\r\n", SMALL),
            ("=-1\r\n", SMALL),
            ("!-1\r\n", SMALL),
            ("$00000000000000000000000000000000000000000000000005\r\n", SMALL),
            (&*long, SMALL),
            (&*many, SMALL),
            (&*deep, loose),
            (&*line, AFTER),
        ] {
            let mut meter = Meter::default();
            let error = meter.measure(answer.as_bytes(), limit).unwrap_err();
            assert!(error.to_string().contains("must be at most"), "{answer:?}: {error}");
        }
    }

    const WORDS: &str = "\
        * % ~ > | $ = ! + - : _ ( \r\n \r \n 3 11 101 abc *2\r\n $3\r\nabc\r\n %1\r\n -1\r\n";

    proptest! {
        /// Whatever the server sends, and however it is cut into pieces: no panic, and neither this
        /// code nor the redis crate keeps more than the limit.
        #[test]
        fn fuzz_of_answers_keeps_within_the_limit(
            answer in prop_oneof![soup(WORDS.split(' ')).prop_map(String::into_bytes), vec(any::<u8>(), 0..2_000)],
            cuts in vec(1..50_usize, 1..10),
        ) {
            let (mut meter, mut rest) = (Meter::default(), &answer[..]);
            for cut in cuts.iter().cycle() {
                let (bytes, later) = rest.split_at(rest.len().min(*cut));
                let measured = meter.measure(bytes, SMALL);
                prop_assert!(meter.line.capacity() <= 2 * LONGEST_NUMBER);
                prop_assert!(meter.lists.capacity() <= 2 * DEEPEST_ANSWER);
                if measured.is_err() || later.is_empty() {
                    break;
                }
                prop_assert!(meter.bytes <= SMALL.bytes && meter.parts <= SMALL.parts);
                prop_assert!(meter.text <= SMALL.bytes + 2);
                rest = later;
            }
        }
    }
}
