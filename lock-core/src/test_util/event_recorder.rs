//! An observer that records all events.

use std::time::Duration;

use tokio::sync::Notify;

use crate::{Event, EventKind, Observer, ReleaseOutcome, sync::Mutex};

/// A recorded event.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// [`Event::word`].
    pub word: &'static str,
    /// The name of the lock.
    pub name: String,
    /// The token of the holder.
    pub token: Option<u64>,
    /// The duration in the event: of the wait or the hold, or the remaining time.
    pub span: Duration,
    /// The lease, if the event has one.
    pub lease: Duration,
    /// The rest of the event in a word: `pushed`, the reason, or the outcome.
    pub about: String,
}

/// An observer that records all events.
#[derive(Debug, Default)]
pub struct EventRecorder {
    events: Mutex<Vec<RecordedEvent>>,
    news: Notify,
}

impl EventRecorder {
    /// All events so far.
    pub fn all(&self) -> Vec<RecordedEvent> {
        self.events.lock().clone()
    }

    /// The words of all events of a lock, in their order.
    pub fn words(&self, name: &str) -> Vec<&'static str> {
        self.all().iter().filter(|event| event.name == name).map(|event| event.word).collect()
    }

    /// Waits for the first event with this word, and returns it.
    ///
    /// # Panics
    /// If there is none within a minute.
    pub async fn until(&self, word: &str) -> RecordedEvent {
        let found = async {
            loop {
                let mut news = std::pin::pin!(self.news.notified());
                news.as_mut().enable();
                if let Some(event) = self.all().into_iter().find(|event| event.word == word) {
                    return event;
                }
                news.await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        found.unwrap_or_else(|_| panic!("no event {word:?} in {:#?}", self.all()))
    }
}

impl Observer for EventRecorder {
    fn event(&self, event: &Event<'_>) {
        let (mut lease, mut about) = (Duration::ZERO, String::new());
        let span = match event.kind {
            EventKind::Requested => Duration::ZERO,
            EventKind::Acquired { waited, pushed } => {
                about.push_str(if pushed { "pushed" } else { "" });
                waited
            }
            EventKind::NotAcquired { why, waited } => {
                about.push_str(why.word());
                waited
            }
            EventKind::Renewed { slack, lease: set, .. } => {
                lease = set;
                slack
            }
            EventKind::RenewalFailed { error, remaining, lease: asked } => {
                lease = asked;
                about = error.kind().to_string();
                remaining
            }
            EventKind::Lost { reason, held } => {
                about.push_str(reason.word());
                held
            }
            EventKind::Released { held, outcome } => {
                about = match outcome {
                    Ok(ReleaseOutcome::Released) => "released".to_owned(),
                    Ok(ReleaseOutcome::NotHeld) => "not held".to_owned(),
                    Err(error) => error.kind().to_string(),
                };
                held
            }
            EventKind::Detached { held } => held,
            EventKind::Quarantined { remaining, why } => {
                why.clone_into(&mut about);
                remaining
            }
        };
        let token = event.holder.map(|(_, token)| token.get());
        let name = event.name.to_string();
        self.events.lock().push(RecordedEvent {
            word: event.word(),
            name,
            token,
            span,
            lease,
            about,
        });
        self.news.notify_waiters();
    }
}
