//! A store whose records have another version. The cases are the same for every database.

use std::sync::Arc;

use backend_sql::Strategy;
use tokio::join;
use verification::versions::{Versioned, refused, upgraded_from};

use super::BOTH;

/// Every step refuses a newer version, and `init` upgrades an older one under load. `start` makes a
/// store with the tables of today.
pub(crate) async fn refused_or_upgraded<V: Versioned>(start: impl AsyncFn(Strategy) -> V) {
    for strategy in BOTH {
        let newer = async || refused(&start(strategy).await).await;
        let older = async || {
            for stored in [None, Some(1)] {
                upgraded_from(Arc::new(start(strategy).await), stored).await;
            }
        };
        join!(newer(), older());
    }
}
