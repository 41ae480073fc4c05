//! Locks shared with other libraries, on real servers.
