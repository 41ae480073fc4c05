//! The write of a record, which is repeated until the store has answered.

use std::sync::Arc;

use super::{backoff::Backoff, loss::check};
use crate::{
    Error, ErrorKind, Instant, RecordWrite, WriteOutcome,
    client::state::{ClientState, Held},
    env::BoxFuture,
};

/// Writes the record of a held lock. After an error it repeats the write until `end`, while the
/// lock is valid.
pub(crate) async fn write_record(
    state: Arc<ClientState>,
    held: Arc<Held>,
    write: RecordWrite,
    end: Instant,
) -> Result<WriteOutcome, Error> {
    let mut backoff = Backoff::until(end);
    let mut doubtful = false;
    loop {
        let error = match state.backend.write_record(&held.grant, &write).await {
            // An earlier try may have written it while the lock was still held.
            Ok(WriteOutcome::NotHeld) if doubtful => {
                let message = "the lock was lost, and it is unknown whether the record was written";
                return Err(Error::new(ErrorKind::OutcomeUnknown, message));
            }
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        doubtful |= error.is_ambiguous();
        let again = error.is_retryable() && check(&state, &held);
        if !again || !backoff.pause(&state).await {
            return Err(match doubtful && !error.is_ambiguous() {
                true => {
                    let message = "it is unknown whether the record was written";
                    Error::new(ErrorKind::OutcomeUnknown, message).with_source(error)
                }
                false => error,
            });
        }
    }
}

/// The clean-up after a write whose caller has gone, which needs none.
pub(crate) fn after_write(_: Arc<ClientState>, _: Result<WriteOutcome, Error>) -> BoxFuture {
    Box::pin(async {})
}
