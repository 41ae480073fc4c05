//! The body of an answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::coop::poll_proceed;
use tonic::{Status, body::Body};

/// Lets other tasks run now and then, and the time limit of the call: the driver reads a message after the other, and
/// would never stop for a server that always has more.
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
