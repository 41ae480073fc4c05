//! The last run of a job, as the record of its name has it.

use std::fmt::Display;

use crate::{Error, ErrorKind, FencingToken, OwnerLabel, Record, StoreTime};

/// How a run ended, if it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// It has begun. It may still be under way, or its process has crashed or lost the lock.
    Started,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

impl RunState {
    /// The word in the record, and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The last run of a job. All times are those of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
    /// How it ended, if it has.
    pub state: RunState,
    /// When its round began: when the job was first found due. Later attempts of the round keep
    /// this time, so that a job that failed at 02:00 and succeeded at 03:30 is due again at 02:00.
    pub round: StoreTime,
    /// How many attempts this round had, with this one: from 1.
    pub attempt: u32,
    /// When this attempt began.
    pub began: StoreTime,
    /// When it ended; `None` while it is [`RunState::Started`].
    pub ended: Option<StoreTime>,
    /// The exit code of the command that ran, if it was one and has ended.
    pub exit_code: Option<u8>,
    /// The label of the client that ran it: `host:pid` by default.
    pub label: OwnerLabel,
    /// The fencing token under which it ran.
    pub token: FencingToken,
    /// When this was written.
    pub written: StoreTime,
}

/// What the record of a run begins with.
const MARK: &str = "leasehold run ";

/// The version of the text after the mark. A text with another version is refused.
const VERSION: &str = "1";

/// The text of a record: state, round, attempt, begin and exit code, and then the label, which may
/// contain spaces. The store keeps the rest: who wrote it, and when.
pub(super) fn value_of(
    state: RunState,
    (round, attempt): (StoreTime, u32),
    began: StoreTime,
    exit_code: Option<u8>,
    label: &OwnerLabel,
) -> String {
    let (state, round, began) = (state.as_str(), round.as_micros(), began.as_micros());
    let code = exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
    format!("{MARK}{VERSION} {state} {round} {attempt} {began} {code} {label}")
}

impl LastRun {
    /// Reads the record of a run.
    ///
    /// # Errors
    /// `Config` if something else has written the record, or another version of leasehold.
    pub fn of(record: &Record) -> Result<Self, Error> {
        let refuse = |why: &dyn Display| Err(Error::new(ErrorKind::Config, why.to_string()));
        let text = str::from_utf8(&record.value).ok();
        let Some(text) = text.and_then(|text| text.strip_prefix(MARK)) else {
            let bytes = record.value.len();
            return refuse(&format_args!(
                "the record of this name, {bytes} bytes, is not that of a run: use a name for the job \
                 that nothing else writes a record for"
            ));
        };
        let (version, text) = text.split_once(' ').unwrap_or((text, ""));
        if version != VERSION {
            let version = version.chars().take(20).collect::<String>();
            return refuse(&format_args!(
                "the last run was recorded in version {version:?}; this program understands version \
                 {VERSION}: use a later one"
            ));
        }
        match Self::parse(text, record) {
            Some(run) => Ok(run),
            None => refuse(&"the record of the last run is damaged"),
        }
    }

    fn parse(text: &str, record: &Record) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let mut word = || words.next();
        let state = match word()? {
            "started" => RunState::Started,
            "done" => RunState::Done,
            "failed" => RunState::Failed,
            _ => return None,
        };
        let round = StoreTime::from_micros(word()?.parse().ok()?);
        let attempt = word()?.parse().ok().filter(|attempt| *attempt > 0)?;
        let began = StoreTime::from_micros(word()?.parse().ok()?);
        let exit_code = match word()? {
            "-" => None,
            code => Some(code.parse().ok()?),
        };
        let label = OwnerLabel::new(word()?).ok()?;
        let written = record.written;
        let ended = (state != RunState::Started).then_some(written);
        let token = record.token;
        Some(Self { state, round, attempt, began, ended, exit_code, label, token, written })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{RecordWrite, test_util::soup};

    fn record(value: impl Into<Vec<u8>>) -> Record {
        let token = FencingToken::new(7).unwrap();
        Record::new(value.into(), token, StoreTime::from_micros(5_000_000))
    }

    fn refusal(value: impl Into<Vec<u8>>) -> String {
        let error = LastRun::of(&record(value)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn the_text_is_that_of_version_1() {
        let run =
            LastRun::of(&record("leasehold run 1 failed 1000000 2 3000000 17 a b:9")).unwrap();
        let at = StoreTime::from_micros;
        assert_eq!((run.state, run.round, run.attempt), (RunState::Failed, at(1_000_000), 2));
        assert_eq!((run.began, run.ended), (at(3_000_000), Some(at(5_000_000))));
        assert_eq!((run.exit_code, run.label.as_str(), run.token.get()), (Some(17), "a b:9", 7));
        let run = LastRun::of(&record("leasehold run 1 started 1 1 1 - ")).unwrap();
        assert_eq!((run.state, run.ended, run.exit_code), (RunState::Started, None, None));
        assert_eq!(run.label.as_str(), "");
    }

    #[test]
    fn what_another_program_or_version_wrote_is_refused() {
        for value in ["", "done", "leasehold latch 1", "leasehold run", "\u{0}"] {
            let text = refusal(value);
            let bytes = format!("{} bytes", value.len());
            assert!(text.contains("not that of a run") && text.contains(&bytes), "{text}");
        }
        assert!(refusal([0xff, 0xfe]).contains("2 bytes"));
        let text = refusal("leasehold run 2 done some other fields");
        assert!(text.contains("version \"2\"") && text.contains("understands version 1"), "{text}");
        for rest in [
            "",
            "done",
            "done 1 1 1 0",
            "gone 1 1 1 0 host",
            "done -1 1 1 0 host",
            "done 1 0 1 0 host",
            "done 1 1 1 256 host",
            "done 1 1 1 0 a\nb",
            "done 1 x 1 0 host",
        ] {
            assert!(refusal(format!("leasehold run 1 {rest}")).contains("damaged"), "{rest}");
        }
    }

    proptest! {
        #[test]
        fn a_run_is_read_as_it_was_written(
            state in prop::sample::select(vec![RunState::Started, RunState::Done, RunState::Failed]),
            (round, began) in any::<(u64, u64)>(),
            attempt in 1_u32..,
            exit_code in any::<Option<u8>>(),
            label in "\\PC{0,60}",
        ) {
            let [round, began] = [round, began].map(StoreTime::from_micros);
            let label = OwnerLabel::new(label).unwrap();
            let value = value_of(state, (round, attempt), began, exit_code, &label);
            prop_assert!(value.len() <= RecordWrite::LARGEST);
            let run = LastRun::of(&record(value)).unwrap();
            let written = StoreTime::from_micros(5_000_000);
            let ended = (state != RunState::Started).then_some(written);
            let token = run.token;
            let expected =
                LastRun { state, round, attempt, began, ended, exit_code, label, token, written };
            prop_assert_eq!(run, expected);
        }

        #[test]
        fn fuzz_of_records_is_read_or_refused(
            words in soup("leasehold run |1 |2 |done |started |- |0 |300 |host|\n|\u{e4}".split('|')),
        ) {
            let _ = LastRun::of(&record(words));
        }
    }

    #[test]
    fn the_longest_label_fits() {
        let label = OwnerLabel::new("x".repeat(255)).unwrap();
        let most = StoreTime::from_micros(u64::MAX);
        let value = value_of(RunState::Started, (most, u32::MAX), most, Some(255), &label);
        assert!(value.len() <= RecordWrite::LARGEST, "{}", value.len());
    }
}
