//! Finds the jars of a ZooKeeper server.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::error::{KitError, Result};

/// Where Debian's packages put jars.
const DEBIAN: &str = "/usr/share/java";

/// What the server needs of Debian's jars. A folder of its own has only what it needs.
const NEEDED: [&str; 14] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "netty-handler",
    "netty-common",
    // For TLS.
    "netty-buffer",
    "netty-codec",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
];

/// The class path of the server whose jars are in `folder`, or in the folder of the environment
/// variable, or of Debian's package.
///
/// # Errors
///
/// [`KitError::MissingProgram`] if there are none.
pub(super) fn class_path(folder: Option<&Path>) -> Result<OsString> {
    let variable = std::env::var_os("LEASEHOLD_ZOOKEEPER_JARS").map(PathBuf::from);
    if let Some(folder) = folder.map(Path::to_owned).or(variable) {
        return Ok(folder.join("*").into_os_string());
    }
    let jars: Vec<_> =
        NEEDED.iter().map(|jar| Path::new(DEBIAN).join(jar).with_extension("jar")).collect();
    if let Some(missing) = jars.iter().find(|jar| !jar.is_file()) {
        let program = missing.display().to_string();
        return Err(KitError::MissingProgram { program, package: "libzookeeper-java" });
    }
    std::env::join_paths(jars).map_err(|error| KitError::Unexpected(error.to_string()))
}
