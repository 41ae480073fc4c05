//! The layouts, as data: where each library keeps a lock, and how it wakes waiters.

use std::time::Duration;

use lock_core::{Error, LockName};

use crate::{options::refuse, record::digest};

/// The layout of a library.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Its name in the URL.
    pub(crate) word: &'static str,
    pub(crate) record: Record,
    /// The template of the lock's key. `{name}` is replaced by the name.
    pub(crate) key: String,
    pub(crate) token: TokenKey,
    pub(crate) wake: Wake,
    /// How long leasehold clients leave the lock alone after many grants in a row: as long as a
    /// foreign waiter may sleep between two polls. Zero if foreign clients do not wait.
    pub(crate) rest: Duration,
}

/// The type of the lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A string with the owner.
    Text,
    /// A hash with a field for the owner.
    Hash,
}

impl Record {
    /// The word for it in the scripts.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Hash => "hash",
        }
    }
}

/// Where the last token is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKey {
    /// In a key of leasehold's, which expires when the clock is past the token.
    Ours,
    /// In the key of Redisson's fenced lock, which continues counting from it. It does not expire.
    Redisson,
}

impl TokenKey {
    /// The word for it in the scripts.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ends",
            Self::Redisson => "stays",
        }
    }
}

/// How the library's waiters are woken after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// They poll.
    Polling,
    /// Redisson's channel of the lock.
    RedissonChannel,
    /// A channel per lock since Spring Integration 7, and one channel per registry before.
    SpringChannels,
    /// A list from which one waiter takes a signal.
    SignalList,
}

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) lock: String,
    pub(crate) token: String,
    /// The list of signals.
    pub(crate) signals: Option<String>,
    /// The channel and the message.
    pub(crate) channel: Option<(String, String)>,
}

/// The placeholder of the name in a template.
pub(crate) const NAME: &str = "{name}";
const OUR_TOKENS: &str = "leasehold_token:";
const REDISSON_TOKENS: &str = "redisson_lock_token:";

/// The layouts that a URL may name.
pub(crate) const WORDS: &str =
    "redisson, redis-py, redsync, node-redlock, python-redis-lock, spring, shedlock or string";

impl Layout {
    /// A layout by its name. `detail` is the registry of `spring`, the environment of `shedlock` or
    /// the template of `string`.
    pub(crate) fn new(word: &str, detail: Option<&str>) -> Result<Self, Error> {
        let millis = Duration::from_millis;
        let text = |word, key: &str, wake, rest| Self {
            word,
            record: Record::Text,
            key: key.to_owned(),
            token: TokenKey::Ours,
            wake,
            rest: millis(rest),
        };
        // The rests, in milliseconds, are a little longer than the longest pause between polls of
        // the library's waiters.
        let layout = match word {
            "redisson" => Self {
                word: "redisson",
                record: Record::Hash,
                key: NAME.to_owned(),
                token: TokenKey::Redisson,
                wake: Wake::RedissonChannel,
                rest: millis(150),
            },
            "redis-py" => text("redis-py", NAME, Wake::Polling, 150),
            "redsync" => text("redsync", NAME, Wake::Polling, 300),
            "node-redlock" => text("node-redlock", NAME, Wake::Polling, 350),
            "python-redis-lock" => text("python-redis-lock", "lock:{name}", Wake::SignalList, 150),
            "spring" => {
                let registry = detail.ok_or_else(|| {
                    refuse(
                        "layout=spring needs registry=KEY, the registry key of the application"
                            .to_owned(),
                    )
                })?;
                text("spring", &format!("{registry}:{NAME}"), Wake::SpringChannels, 150)
            }
            "shedlock" => {
                let environment = detail.unwrap_or("default");
                text("shedlock", &format!("job-lock:{environment}:{NAME}"), Wake::Polling, 0)
            }
            "string" => {
                let template = detail.ok_or_else(|| {
                    refuse(format!("layout=string needs key=TEMPLATE, such as key=locks:{NAME}"))
                })?;
                text("string", template, Wake::Polling, 500)
            }
            _ => return Err(refuse(format!("layout is not allowed; it must be {WORDS}"))),
        };
        if layout.key.matches(NAME).count() != 1 {
            let message = format!("the key of a lock must have {NAME} once, such as locks:{NAME}");
            return Err(refuse(message));
        }
        Ok(layout)
    }

    /// The prefix of leasehold's own keys. Each layout has another prefix, so locks of two layouts
    /// are two locks.
    pub(crate) fn prefix(&self) -> String {
        if self.key == NAME {
            return format!("leasehold-foreign:{}", self.word);
        }
        // A digest, because the template may contain characters that are not allowed in a prefix.
        format!("leasehold-foreign:{}:{:016x}", self.word, digest(&self.key))
    }

    /// The additional option of a layout, if it has one.
    pub(crate) fn detail_option(word: &str) -> Option<&'static str> {
        match word {
            "spring" => Some("registry"),
            "shedlock" => Some("env"),
            "string" => Some("key"),
            _ => None,
        }
    }

    /// The keys of a name.
    ///
    /// # Errors
    /// `InvalidInput` if they cannot share a slot of a cluster, or if the lock's key would be one
    /// of leasehold's own records.
    pub(crate) fn keys(&self, name: &LockName) -> Result<Keys, Error> {
        let lock = self.key.replace(NAME, name.as_str());
        let token = match self.token {
            TokenKey::Redisson => redisson_key("redisson_lock_token", &lock),
            TokenKey::Ours if slot_part(&lock) == lock => format!("{OUR_TOKENS}{{{lock}}}"),
            TokenKey::Ours => format!("{OUR_TOKENS}{lock}"),
        };
        if slot_part(&token) != slot_part(&lock) {
            let message = format!(
                "the braces in name {:?} keep the lock and its token from one slot of a cluster; it must have none, or \
                 one pair around one character or more",
                name.as_str()
            );
            return Err(refuse(message));
        }
        let ours = ["leasehold-foreign:", OUR_TOKENS, REDISSON_TOKENS];
        if let Some(ours) = ours.iter().find(|ours| lock.starts_with(**ours)) {
            let message = format!(
                "the key of name {:?} would be one of the records beside the locks; it must not begin with {ours:?}",
                name.as_str()
            );
            return Err(refuse(message));
        }
        let channel = match self.wake {
            Wake::RedissonChannel => {
                Some((redisson_key("redisson_lock__channel", &lock), "0".to_owned()))
            }
            Wake::SpringChannels => {
                let registry = self.key.strip_suffix(":{name}").unwrap_or_default();
                Some((format!("{registry}-channel:{lock}"), lock.clone()))
            }
            Wake::Polling | Wake::SignalList => None,
        };
        let signals = (self.wake == Wake::SignalList).then(|| format!("lock-signal:{name}"));
        Ok(Keys { lock, token, signals, channel })
    }

    /// The word in the scripts for how messages are sent.
    pub(super) fn publish_word(&self) -> &'static str {
        if self.wake == Wake::SpringChannels { "spring" } else { "publish" }
    }

    /// Whether a release sends waiters a message.
    pub(crate) fn pushes(&self) -> bool {
        matches!(self.wake, Wake::RedissonChannel | Wake::SpringChannels)
    }
}

/// The name of a key that belongs to a lock, as Redisson forms it.
fn redisson_key(word: &str, lock: &str) -> String {
    if lock.contains('{') { format!("{word}:{lock}") } else { format!("{word}:{{{lock}}}") }
}

/// The part of a key that determines its slot in a cluster.
fn slot_part(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    fn keys(layout: &Layout, name: &str) -> Result<Keys, Error> {
        layout.keys(&LockName::new(name).unwrap())
    }

    #[test]
    fn each_library_has_its_keys() {
        // The lock, the last token, and the channel with its message or the list of signals.
        for (word, detail, expected) in [
            (
                "redisson",
                None,
                ["a b", "redisson_lock_token:{a b}", "redisson_lock__channel:{a b} 0"],
            ),
            ("redis-py", None, ["a b", "leasehold_token:{a b}", ""]),
            (
                "python-redis-lock",
                None,
                ["lock:a b", "leasehold_token:{lock:a b}", "lock-signal:a b"],
            ),
            ("spring", Some("r"), ["r:a b", "leasehold_token:{r:a b}", "r-channel:r:a b r:a b"]),
            ("shedlock", Some("eu"), ["job-lock:eu:a b", "leasehold_token:{job-lock:eu:a b}", ""]),
            ("string", Some("{x}:{name}"), ["{x}:a b", "leasehold_token:{x}:a b", ""]),
        ] {
            let found = keys(&Layout::new(word, detail).unwrap(), "a b").unwrap();
            let channel = found.channel.map(|(channel, message)| format!("{channel} {message}"));
            let wake = channel.or(found.signals).unwrap_or_default();
            assert_eq!([found.lock, found.token, wake], expected, "{word}");
        }
        let redisson = keys(&Layout::new("redisson", None).unwrap(), "{a}b").unwrap();
        assert_eq!(redisson.token, "redisson_lock_token:{a}b");
    }

    #[test]
    fn names_whose_braces_need_two_slots_are_refused() {
        for word in ["redisson", "redis-py"] {
            let layout = Layout::new(word, None).unwrap();
            for name in ["{}", "a}b", "a}{b", "{}a", "}"] {
                let error = keys(&layout, name).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains("one slot of a cluster"), "{name}: {error}");
            }
            for name in ["{a}", "a{b}c", "a{b}{", "a"] {
                let found = keys(&layout, name).unwrap();
                assert_eq!(slot_part(&found.lock), slot_part(&found.token), "{name}");
            }
        }
    }

    #[test]
    fn each_template_has_its_own_records() {
        let prefix = |word, detail| Layout::new(word, detail).unwrap().prefix();
        // These are in the stores of users, so they must never change.
        assert_eq!(prefix("redisson", None), "leasehold-foreign:redisson");
        assert_eq!(prefix("shedlock", None), "leasehold-foreign:shedlock:85e430681c78089e");
        assert_ne!(prefix("string", Some("a{name}")), prefix("string", Some("b{name}")));
        assert_ne!(prefix("redis-py", None), prefix("redsync", None));
    }

    #[test]
    fn a_lock_is_never_one_of_leaseholds_own_records() {
        let layout = Layout::new("redis-py", None).unwrap();
        for name in ["leasehold-foreign:x", "leasehold_token:x", "redisson_lock_token:x"] {
            let error = keys(&layout, name).unwrap_err();
            assert!(error.to_string().contains("must not begin with"), "{error}");
        }
    }

    #[test]
    fn a_template_contains_the_name_once() {
        for template in ["locks", "{name}{name}", ""] {
            let error = Layout::new("string", Some(template)).unwrap_err();
            assert!(error.to_string().contains("must have {name} once"), "{error}");
        }
        for (word, part) in
            [("spring", "needs registry"), ("string", "needs key"), ("x", "must be")]
        {
            let error = Layout::new(word, None).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
