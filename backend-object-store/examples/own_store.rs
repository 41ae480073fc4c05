//! A store of one's own, with the three calls that locks need. Replace the map by a table, or by a
//! key-value service that compares and swaps.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use backend_object_store::cas::{CasBackend, CasOptions, CasStore, Object, Put, Version};
use lock_core::{Error, LockClient, Mutex, async_trait};

/// Objects with the number of the write that made each: a number never comes again.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<BTreeMap<String, (u64, Vec<u8>)>>);

#[async_trait]
impl CasStore for Table {
    async fn get(&self, key: &str) -> Result<Option<Object>, Error> {
        let rows = self.0.lock();
        let object = |(number, bytes): &(u64, Vec<u8>)| {
            Object::new(bytes.clone(), Version(number.to_string()))
        };
        Ok(rows.get(key).map(object))
    }

    /// The comparison and the write are one step, such as
    /// `UPDATE … SET number = number + 1 WHERE key = … AND number = …`.
    async fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<Put, Error> {
        let mut rows = self.0.lock();
        let number = rows.get(key).map_or(0, |(number, _)| *number);
        let present = Version(number.to_string());
        if expected != (number > 0).then_some(&present) {
            return Ok(Put::Refused);
        }
        rows.insert(key.to_owned(), (number + 1, bytes));
        Ok(Put::Written(Version((number + 1).to_string())))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        let rows = self.0.lock();
        let from = Bound::Excluded(after.unwrap_or(prefix).to_owned());
        let keys = rows.range((from, Bound::Unbounded)).map(|(key, _)| key);
        Ok(keys.take_while(|key| key.starts_with(prefix)).take(100).cloned().collect())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let store = Arc::new(Table::default());
    let backend = CasBackend::open(store, CasOptions::new("own")).await?;
    let client = LockClient::new(Arc::new(backend));
    let guard = client.lock("order-17").acquire().await?;
    println!("locked, with fencing token {}", guard.token());
    guard.release().await
}
