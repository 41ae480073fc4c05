//! The interface through which a connection delivers the server's pushes.

use std::fmt;

use crate::keys::Bucket;

/// Receives the pushes of a server. A connection knows nothing else about waiters.
pub(crate) trait PushListener: fmt::Debug + Send + Sync + 'static {
    /// The channel to which scripts publish for a bucket.
    fn channel(&self, bucket: Bucket) -> &str;

    /// Whether a subscription to the channel of this bucket is wanted now.
    fn listens(&self, bucket: Bucket) -> bool;

    /// A message on this channel arrived.
    fn on_message(&self, channel: &[u8], message: &[u8]);

    /// Messages may have been missed.
    fn missed(&self);
}
