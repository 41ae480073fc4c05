//! A latch: opens when each of its parts has been counted down. The record of its name has them.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Error, ErrorKind, Guard, Lock, LockClient, LockName, Record, RecordWrite, check_span,
    name::{check_text, shortened},
    tunables::{LATCH_KEPT, LATCH_POLL},
};

/// A latch, which opens when each of its parts has been counted down. Made by
/// [`LockClient::latch`].
///
/// A latch is used once: take a new name for the next one.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `count_down` or `wait`"]
pub struct Latch {
    lock: Lock,
    parts: Result<Parts, Error>,
    keep_for: Duration,
}

/// Each part, and whether it was counted down.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts(BTreeMap<String, bool>);

/// What the record of a latch begins with, and its version.
const MARK: &str = "leasehold latch 1\n";

impl LockClient {
    /// A latch with these parts, which are names such as those of shards or files. An invalid name,
    /// and parts that are not allowed, are errors of the latch's methods: each part has 1 to 255
    /// bytes of UTF-8 without control characters, and all of them, with two bytes more for each,
    /// have at most 1006 bytes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let import = client.latch("import of 2026-11-27", ["users", "orders"]);
    /// import.count_down("users").await?;
    /// import.count_down("users").await?; // counts once
    /// assert_eq!(import.open_parts().await?, ["orders"]);
    /// import.count_down("orders").await?;
    /// import.wait().await?; // in any process
    /// # Ok(())
    /// # }
    /// ```
    pub fn latch<N, P>(&self, name: N, parts: P) -> Latch
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
        P: IntoIterator,
        P::Item: Into<String>,
    {
        let parts = Parts::new(parts.into_iter().map(Into::into));
        Latch { lock: self.lock(name), parts, keep_for: LATCH_KEPT }
    }
}

impl Latch {
    /// Sets the lease of the lock under which a part is counted down, as [`Lock::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Sets how long the store keeps the latch at least after each count, from 1 s to 10 years.
    /// Default: 30 days. A latch that the store has forgotten is closed.
    pub fn keep_for(mut self, span: Duration) -> Self {
        self.keep_for = span;
        self
    }

    /// Counts a part down: it is done. To count a part down again changes nothing, so a worker may
    /// repeat its part, and repeats this call after an error.
    ///
    /// # Guarantees
    ///
    /// Counts of several clients do not overwrite each other. If the store loses its records, parts
    /// are open again, and must be counted down again.
    ///
    /// # Durations
    ///
    /// It waits for other clients that count down at the same moment, as [`Lock::acquire`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for parts that are not allowed, or a `part` that is none of them;
    /// `Unsupported` if the store keeps no records; `Config` if the record of the name is not that
    /// of a latch with these parts; otherwise those of [`Lock::acquire`] and
    /// [`Guard::write_record`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the part may be counted down or not.
    pub async fn count_down(&self, part: impl AsRef<str>) -> Result<(), Error> {
        let (name, part) = (self.checked()?, part.as_ref());
        let parts = self.read().await?;
        match parts.0.get(part) {
            None => {
                let message = format!("part {} is none of the latch's parts", shortened(part));
                return Err(Error::new(ErrorKind::InvalidInput, message).on(name));
            }
            // No count is ever taken back.
            Some(true) => return Ok(()),
            Some(false) => {}
        }
        let guard = self.lock.clone().acquire().await?;
        let counted = self.count_under(&guard, part).await;
        // If this fails, the lock ends with its lease.
        let _ = guard.release().await;
        counted
    }

    async fn count_under(&self, guard: &Guard, part: &str) -> Result<(), Error> {
        let mut parts = self.read().await?;
        parts.0.insert(part.to_owned(), true);
        guard.write_record(parts.value(), self.keep_for).await
    }

    /// The parts that nobody has counted down, in order: none if the latch is open.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down), without those of an acquire.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn open_parts(&self) -> Result<Vec<String>, Error> {
        self.checked()?;
        let parts = self.read().await?.0.into_iter();
        Ok(parts.filter_map(|(part, done)| (!done).then_some(part)).collect())
    }

    /// Waits until the latch is open.
    ///
    /// # Guarantees
    ///
    /// The latch was open: each part was counted down. A store that does not answer, or has lost
    /// its records, never opens a latch.
    ///
    /// # Durations
    ///
    /// It asks the store each second, for as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`open_parts`](Self::open_parts), except those that a retry may mend; `Config` also if
    /// the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait(&self) -> Result<(), Error> {
        loop {
            match self.open_parts().await {
                Ok(open) if open.is_empty() => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error),
                _ => self.lock.state().env.sleep(LATCH_POLL).await,
            }
        }
    }

    fn checked(&self) -> Result<&LockName, Error> {
        let name = self.lock.checked()?;
        let (least, most) = (RecordWrite::SHORTEST_KEPT, RecordWrite::LONGEST_KEPT);
        check_span("keep_for", self.keep_for, least, most).map_err(|error| error.on(name))?;
        Ok(name)
    }

    /// The parts as the store has them; without a record all are open.
    async fn read(&self) -> Result<Parts, Error> {
        let name = self.lock.name()?;
        let parts = self.parts.as_ref().map_err(|error| error.clone().on(name))?;
        match self.lock.client().read_record(name).await?.record {
            None => Ok(parts.clone()),
            Some(record) => parts.of(&record).map_err(|error| error.on(name)),
        }
    }
}

impl Parts {
    /// All of them open.
    fn new(parts: impl Iterator<Item = String>) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        let mut all = BTreeMap::new();
        for part in parts {
            check_text("part", &part, 1)?;
            if all.contains_key(&part) {
                return refuse(format!("part {} must be given once, not twice", shortened(&part)));
            }
            all.insert(part, false);
        }
        let all = Self(all);
        let bytes = all.value().len() - MARK.len();
        let most = RecordWrite::LARGEST - MARK.len();
        match all.0.len() {
            0 => refuse("a latch must have at least one part".to_owned()),
            parts if bytes > most => refuse(format!(
                "the {parts} parts of the latch take {bytes} bytes; they must take at most {most}"
            )),
            _ => Ok(all),
        }
    }

    /// The text of the record: a line for each part, with a plus if it was counted down.
    fn value(&self) -> String {
        let line =
            |(part, done): (&String, &bool)| format!("{}{part}\n", if *done { '+' } else { '-' });
        MARK.to_owned() + &self.0.iter().map(line).collect::<String>()
    }

    /// The parts of a record, which must be the same.
    fn of(&self, record: &Record) -> Result<Self, Error> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::Config, message));
        let text = str::from_utf8(&record.value).ok();
        let Some(lines) = text.and_then(|text| text.strip_prefix(MARK)) else {
            return refuse("the record of this name is not that of a latch of this version");
        };
        let part = |line: &str| {
            let done = match line.chars().next()? {
                '+' => true,
                '-' => false,
                _ => return None,
            };
            Some((line[1..].to_owned(), done))
        };
        match lines.lines().map(part).collect::<Option<BTreeMap<_, _>>>() {
            Some(parts) if parts.keys().eq(self.0.keys()) => Ok(Self(parts)),
            _ => refuse("the latch of this name has other parts: take a new name for a new latch"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FencingToken, StoreTime};

    fn parts(names: &[&str]) -> Result<Parts, Error> {
        Parts::new(names.iter().map(|&name| name.to_owned()))
    }

    fn read(latch: &Parts, value: impl Into<Vec<u8>>) -> Result<Parts, Error> {
        latch.of(&Record::new(value.into(), FencingToken::ZERO, StoreTime::EVER))
    }

    #[test]
    fn the_text_is_that_of_version_1() {
        let mut latch = parts(&["b", "a c", "-"]).unwrap();
        latch.0.insert("b".to_owned(), true);
        assert_eq!(latch.value(), "leasehold latch 1\n--\n-a c\n+b\n");
        assert_eq!(read(&parts(&["a c", "b", "-"]).unwrap(), latch.value()).unwrap(), latch);
    }

    #[test]
    fn what_is_not_this_latch_is_refused() {
        let latch = parts(&["a", "b"]).unwrap();
        for value in [
            "",
            "done",
            "leasehold latch 2\n-a\n-b\n",
            "leasehold latch 1\n-a\n",
            "leasehold latch 1\n-a\n-b\n-c\n",
            "leasehold latch 1\na\nb\n",
            "leasehold latch 1\n\n",
            "leasehold latch 1\n\u{e4}a\n-b\n",
        ] {
            assert_eq!(read(&latch, value).unwrap_err().kind(), ErrorKind::Config, "{value:?}");
        }
        assert_eq!(read(&latch, [0xff]).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let long = "x".repeat(255);
        let many: Vec<_> = (0..250).map(|number| format!("{number:03}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        for (names, word) in [
            (&[][..], "at least one part"),
            (&["a", "a"], "must be given once"),
            (&[""], "between 1 and 255"),
            (&["a\nb"], "control character"),
            (&many, "take 1250 bytes; they must take at most 1006"),
        ] {
            let error = parts(names).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(word), "{word} in {error}");
        }
        parts(&[&long]).unwrap();
        parts(&many[..200]).unwrap();
    }
}
