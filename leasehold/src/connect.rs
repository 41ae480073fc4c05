//! From a URL to a client.

use std::sync::Arc;

use lock_core::{Backend, ClientOptions, Error, LockClient};

use crate::{StoreUrl, schemes};

/// Connects to the store at `url`, with the default [`ClientOptions`].
///
/// Call it once when the program starts, not for each lock: keep the client, and clone it.
///
/// # Errors
/// `InvalidInput` for a URL that no store understands, naming what is allowed; `Unsupported` for
/// one whose backend is not compiled in, naming the cargo feature to add; `Unavailable`, `Auth`,
/// `Config` or `Timeout` where the store cannot be opened. No message shows a password of the URL.
///
/// *Cancel safety*: dropping the future leaves nothing, except the store itself where it is created at first
/// use.
pub async fn connect<U>(url: U) -> Result<LockClient, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    connect_with(url, ClientOptions::default()).await
}

/// The same with other options.
///
/// # Errors
/// As [`connect`]; `InvalidInput` for an option that is not allowed, before the store is touched.
pub async fn connect_with<U>(url: U, options: ClientOptions) -> Result<LockClient, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    options.check()?;
    LockClient::with_options(open(url).await?, options)
}

/// Connects to the store itself, for [`LockClient::with_options`]. A client has the calls of operators, too:
/// [`LockClient::inspect`], [`LockClient::list`], [`LockClient::check`].
///
/// # Errors
/// As [`connect`].
pub async fn open<U>(url: U) -> Result<Arc<dyn Backend>, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    let open = url.row()?.opener()?.open;
    schemes::check_layout(&url)?;
    open(url).await
}

/// The SQL that makes the tables of the store at `url`, for the user's own migrations. Does not
/// connect.
///
/// # Errors
/// `Unsupported` for a store that is no SQL database; `InvalidInput` as [`connect`].
pub fn schema<U>(url: U) -> Result<String, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    (url.row()?.opener()?.schema)(&url)
}
