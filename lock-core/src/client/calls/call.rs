//! A call to the store that runs to its end, even if its caller goes away (S6).

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{Either, select};

use crate::{client::state::ClientState, env::BoxFuture};

/// The clean-up of a result whose caller has gone.
pub(crate) type CleanUp<T> = fn(Arc<ClientState>, T) -> BoxFuture;

/// A call to the store, polled in place. If it is dropped before its end, it moves to the renewer,
/// which finishes it and cleans up after it.
///
/// This makes every public future safe to drop, without the cost of a spawned task per call.
pub(crate) struct Call<'a, T: Send + 'static> {
    /// `None` once it has ended or panicked.
    future: Option<BoxFuture<T>>,
    state: &'a Arc<ClientState>,
    clean_up: CleanUp<T>,
}

impl<'a, T: Send + 'static> Call<'a, T> {
    pub(crate) fn new(
        state: &'a Arc<ClientState>,
        future: impl Future<Output = T> + Send + 'static,
        clean_up: CleanUp<T>,
    ) -> Self {
        Self { future: Some(Box::pin(future)), state, clean_up }
    }

    /// Waits for the result; `None` after `limit`.
    pub(crate) async fn within(mut self, limit: Duration) -> Option<T> {
        // Most calls to an embedded store end with the first poll and need no timer.
        if let Poll::Ready(output) = futures_util::poll!(&mut self) {
            return Some(output);
        }
        let timer = self.state.env.sleep(limit);
        match select(self, timer).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(((), _unfinished)) => None,
        }
    }
}

impl<T: Send + 'static> Future for Call<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled, so that a call that panics is not polled again.
        let Some(mut future) = self.future.take() else {
            return Poll::Pending;
        };
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => {
                self.future = Some(future);
                Poll::Pending
            }
        }
    }
}

impl<T: Send + 'static> Drop for Call<'_, T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            let (state, clean_up) = (Arc::clone(self.state), self.clean_up);
            self.state.detach(Box::pin(async move {
                let output = future.await;
                clean_up(state, output).await;
            }));
        }
    }
}
