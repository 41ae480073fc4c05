//! Scripts and statements that lack a guard on their way to a real server: the case meant for the guard has to
//! fail. The same case has to pass with the text as it is.
//!
//! A guard is a line of its own in a Lua or SQL text, behind the comment line `-- guard: NAME`, which has to
//! reach the server. A backend's tests list its guards as [`Broken`] and run them with [`try_all`]; SQLite,
//! whose texts cross no wire, with [`try_all_in_copies`].

pub mod cases;
mod copies;
mod list;
#[cfg(feature = "redis")]
pub mod redis;
mod wire;
#[cfg(feature = "redis")]
mod worlds;

#[cfg(feature = "redis")]
pub use self::worlds::Worlds;
pub use self::{
    copies::try_all_in_copies,
    list::{Broken, Clients, Setup, Verdict, every_marker_is_tried},
    wire::try_all,
};
