//! Why some faults are not tried on some stores: data, which the tables print.

use crate::proof::{
    Absent::{self, NotApplicable, NotTried},
    Fault,
};

/// What befalls clients, and their way to the store.
pub(super) const CLIENT_FAULTS: &[Fault] = &[
    Fault::None,
    Fault::ClientKilled,
    Fault::ClientPaused,
    Fault::ConnectionCut,
    Fault::HalfCut,
    Fault::RequestsLost,
    Fault::Delayed,
];

pub(super) fn but(faults: &[Fault], left_out: &[Fault]) -> Vec<Fault> {
    faults.iter().copied().filter(|fault| !left_out.contains(fault)).collect()
}

/// What a group of servers has in common with one.
pub(super) const ON_ONE_SERVER: Absent = NotTried("tried on one server of the same kind");

pub(super) const NO_MEMBER: (Fault, Absent) = (
    Fault::DataLost,
    NotTried("a node that has lost its files is no member of the cluster any more"),
);

const ONE: Absent = NotApplicable("there is one server");
/// The faults of several servers, where there is one.
pub(super) const MEMBERS: [(Fault, Absent); 4] = [
    (Fault::FailedOver, ONE),
    (Fault::MemberKilled, ONE),
    (Fault::MemberPaused, ONE),
    (Fault::QuorumLost, ONE),
];

pub(super) const NO_FAILOVER: (Fault, Absent) = (
    Fault::FailedOver,
    NotApplicable("its assumption `one-server` excludes it, and the tests have no replica of it"),
);

/// A database that comes back empty has to be made again by an operator.
pub(super) const OPERATOR: (Fault, Absent) = (
    Fault::DataLost,
    NotApplicable("an empty database grants nothing until an operator has made or restored it"),
);

pub(super) const NO_TAIL: (Fault, Absent) = (
    Fault::TailLost,
    NotApplicable("it flushes before it answers: only a disk that lies loses the tail"),
);

pub(super) const NO_COPY: (Fault, Absent) = (Fault::Restored, Absent::As("tail lost"));

const SHIM: Absent = NotTried("the clock shim has no effect on etcd, which is written in Go");
pub(super) const NO_CLOCK: [(Fault, Absent); 2] =
    [(Fault::ClockForward, SHIM), (Fault::ClockBack, SHIM)];

const FILE: Absent = NotApplicable("there is no server, and no connection: a file on this machine");
const FILE_CLOCK: Absent = NotTried(
    "it counts on CLOCK_BOOTTIME, which nobody sets; the shim has no effect on the client",
);
const FILE_DISK: Absent = NotTried("it writes in the client's own process, as any file");
/// The faults of servers, where there is none.
pub(super) const NO_SERVER: [(Fault, Absent); 17] = [
    (Fault::ConnectionCut, FILE),
    (Fault::HalfCut, FILE),
    (Fault::RequestsLost, FILE),
    (Fault::Delayed, FILE),
    (Fault::ServerPaused, FILE),
    (Fault::ServerRestarted, FILE),
    (Fault::DataLost, NotApplicable("its clients have the file open: its assumption `local-file`")),
    (
        Fault::TailLost,
        NotApplicable("a loss of power ends its clients, too; a row of another boot is waited out"),
    ),
    (Fault::Restored, NotApplicable("its clients have the file open: its assumption `local-file`")),
    (Fault::SlowDisk, FILE_DISK),
    (Fault::FullDisk, FILE_DISK),
    (Fault::ClockForward, FILE_CLOCK),
    (Fault::ClockBack, FILE_CLOCK),
    (Fault::FailedOver, FILE),
    (Fault::MemberKilled, FILE),
    (Fault::MemberPaused, FILE),
    (Fault::QuorumLost, FILE),
];
