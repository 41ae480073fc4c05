//! A store whose records have another version. The case is the same for every database.

use backend_sql::Strategy;
use verification::versions::{self, Versioned};

use super::BOTH;

/// Every step refuses another version. `start` makes a store with the tables of today.
pub(crate) async fn refused<V: Versioned>(start: impl AsyncFn(Strategy) -> V) {
    for strategy in BOTH {
        versions::refused(&start(strategy).await).await;
    }
}
