//! Parts of transactions and of their answers.

use etcd_client::{GetResponse, PutOptions, ResponseHeader, TxnOp, TxnOpResponse, TxnResponse};

/// The results of the reads of a transaction, in order.
pub(crate) fn gets(answer: &TxnResponse) -> Vec<GetResponse> {
    let responses = answer.op_responses().into_iter();
    responses
        .filter_map(|response| match response {
            TxnOpResponse::Get(got) => Some(got),
            _ => None,
        })
        .collect()
}

/// The revision of the store after a transaction.
pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, ResponseHeader::revision)
}

/// Writes a key that lives by a lease.
pub(crate) fn put(key: &str, value: Vec<u8>, lease: i64) -> TxnOp {
    TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)))
}
