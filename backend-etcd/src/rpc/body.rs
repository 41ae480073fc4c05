//! The body of a response.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::coop::poll_proceed;
use tonic::{Status, body::Body};

/// Yields now and then, so that other tasks and the time limit of the call can run. The client
/// library reads one message after the other, and would never yield to them if the server sent
/// without end.
#[derive(Debug)]
pub(super) struct YieldingBody(pub(super) Body);

impl http_body::Body for YieldingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let budget = ready!(poll_proceed(cx));
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        if frame.is_ready() {
            budget.made_progress();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
