//! Why some faults are not tried on some stores. The tables print these reasons.

use crate::proof::{
    Fault,
    Untried::{self, NotApplicable, NotTried},
};

/// The faults of clients and of their network.
pub(super) const CLIENT_FAULTS: &[Fault] = &[
    Fault::None,
    Fault::ClientKilled,
    Fault::ClientPaused,
    Fault::ConnectionCut,
    Fault::HalfCut,
    Fault::RequestsLost,
    Fault::Delayed,
];

/// For a group of servers: the fault is tried on one server.
pub(super) const ON_ONE_SERVER: Untried = NotTried("tried on one server of the same kind");

pub(super) const NO_MEMBER: (Fault, Untried) = (
    Fault::DataLost,
    NotTried("a node that has lost its files is no member of the cluster any more"),
);

/// For a bucket.
pub(super) const ONE_REQUEST: (Fault, Untried) = (
    Fault::ConnectionCut,
    NotTried("the S3 server of the tests closes each connection after one answer"),
);
pub(super) const IN_MEMORY: Untried =
    NotTried("the S3 server of the tests has its objects and its clock in memory of its own");

const ONE: Untried = NotApplicable("there is one server");
/// The faults of several servers, for a store with one server.
pub(super) const MEMBERS: [(Fault, Untried); 4] = [
    (Fault::FailedOver, ONE),
    (Fault::MemberKilled, ONE),
    (Fault::MemberPaused, ONE),
    (Fault::QuorumLost, ONE),
];

pub(super) const NO_FAILOVER: (Fault, Untried) = (
    Fault::FailedOver,
    NotApplicable("its assumption `one-server` excludes it, and the tests have no replica of it"),
);

/// An operator must create the tables again in a database that comes back empty.
pub(super) const OPERATOR: (Fault, Untried) = (
    Fault::DataLost,
    NotApplicable("an empty database grants nothing until an operator has made or restored it"),
);

pub(super) const NO_TAIL: (Fault, Untried) = (
    Fault::TailLost,
    NotApplicable("it flushes before it answers: only a disk that lies loses the tail"),
);

pub(super) const NO_COPY: (Fault, Untried) = (Fault::Restored, Untried::As("tail lost"));

const SHIM: Untried = NotTried("the clock shim has no effect on etcd, which is written in Go");
pub(super) const NO_CLOCK: [(Fault, Untried); 2] =
    [(Fault::ClockForward, SHIM), (Fault::ClockBack, SHIM)];

/// ZooKeeper without any data is a new store for clients that do not know it.
pub(super) const LOST_TREE: (Fault, Untried) = (
    Fault::DataLost,
    NotApplicable("its assumption `old-states`: an operator reports the loss of all data"),
);

/// One server elects no leader, so its restore shows only to clients that knew it before.
pub(super) const UNREPORTED: (Fault, Untried) = (
    Fault::Restored,
    NotApplicable(
        "its assumption `old-states`: an operator reports the restore of a single server",
    ),
);

const JAVA_DISK: Untried = NotTried("the tests do not slow or fill the disk of a Java server");
const JAVA_CLOCK: Untried = NotTried("the clock shim was not tried with Java");
pub(super) const UNTRIED_ON_JAVA: [(Fault, Untried); 4] = [
    (Fault::SlowDisk, JAVA_DISK),
    (Fault::FullDisk, JAVA_DISK),
    (Fault::ClockForward, JAVA_CLOCK),
    (Fault::ClockBack, JAVA_CLOCK),
];

const FILE: Untried =
    NotApplicable("there is no server, and no connection: a file on this machine");
const FILE_CLOCK: Untried = NotTried(
    "it counts on CLOCK_BOOTTIME, which nobody sets; the shim has no effect on the client",
);
const FILE_DISK: Untried = NotTried("it writes in the client's own process, as any file");
/// The faults of servers, for a store without a server.
pub(super) const NO_SERVER: [(Fault, Untried); 17] = [
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
