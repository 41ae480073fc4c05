//! MySQL and MariaDB: so far the fence only. There are no locks here yet; those of another store can
//! be fenced by it.

mod fence;

pub use self::fence::MysqlFence;
