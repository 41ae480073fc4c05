//! The listener for a server's pushes to this client.

use std::fmt;

use crate::keys::Bucket;

/// Hears the pushes of a server. A connection knows no more of the waiters.
pub(crate) trait PushListener: fmt::Debug + Send + Sync + 'static {
    /// The channel that scripts publish to about a bucket.
    fn channel(&self, bucket: Bucket) -> &str;

    /// Whether a subscription to the channel of this bucket is wanted now.
    fn listens(&self, bucket: Bucket) -> bool;

    /// A message on this channel.
    fn hear(&self, channel: &[u8], message: &[u8]);

    /// Messages may have been missed.
    fn missed(&self);
}
