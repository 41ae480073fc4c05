//! Tests of several folders at once.

mod discovery;
mod fuzz;
mod hanging_sentinels;
mod other_clusters;
mod silent_connections;
