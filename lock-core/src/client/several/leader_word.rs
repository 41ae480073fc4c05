//! What a leader tells everybody, such as its address: the record of the election's name.

use std::fmt;

use crate::{
    Error, FencingToken, LockClient, LockName, Monitor, RecordWrite, StoreTime,
    client::record::write_held,
};

/// What a leader has published, as any client reads it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderWord {
    /// What it said.
    pub value: Vec<u8>,
    /// The leader's fencing token.
    pub term: FencingToken,
    /// When it said so, on the store's clock.
    pub published: StoreTime,
    /// Whether this leader led when the store was read. If not, nobody leads, or a leader that has
    /// published nothing yet.
    pub leads: bool,
}

/// As [`Record`](crate::Record): only the length of the value is shown.
impl fmt::Debug for LeaderWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderWord")
            .field("bytes", &self.value.len())
            .field("term", &self.term)
            .field("published", &self.published)
            .field("leads", &self.leads)
            .finish()
    }
}

impl Monitor {
    /// Tells all clients something under this lock, such as the leader's address: up to 1024 bytes.
    /// Clients read it with [`Election::word`](crate::Election::word). It replaces the word of all
    /// earlier leaders, and is kept until the next one publishes, for at most 10 years.
    ///
    /// # Guarantees
    ///
    /// As [`Guard::write_record`](crate::Guard::write_record): a former leader cannot replace what
    /// a later one has published. Do not use it where something else writes the record of this name.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// As [`Guard::write_record`](crate::Guard::write_record).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write goes on in the background.
    pub async fn publish(&self, word: impl Into<Vec<u8>>) -> Result<(), Error> {
        // A leader may lead for years, and is not asked to repeat what it has said.
        write_held(self.state(), self.held(), word, RecordWrite::LONGEST_KEPT).await
    }
}

pub(super) async fn read_word(
    client: &LockClient,
    name: &LockName,
) -> Result<Option<LeaderWord>, Error> {
    let Some(record) = client.read_record(name).await?.record else { return Ok(None) };
    // After the word: a leader that leads now has led when its word was read.
    let state = client.inspect(name).await?;
    let leads = state
        .is_some_and(|state| state.holder.is_some() && !state.kept && state.token == record.token);
    let (value, term, published) = (record.value, record.token, record.written);
    Ok(Some(LeaderWord { value, term, published, leads }))
}
