//! The conformance suite on one etcd, with the permissions that the documentation names, and on a
//! cluster of three.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use backend_etcd::etcd_client::{Client, ConnectOptions, Permission};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{Etcd, EtcdOptions};

struct OnEtcd {
    name: &'static str,
    members: usize,
}

/// Makes the user of docs/backends/etcd.md: a role for the range of the prefix, and no more.
async fn make_user(etcd: &Etcd) -> Result<(), SetUpError> {
    let page = include_str!("../../docs/backends/etcd.md");
    let role = "A role with read and write permission for the range `leasehold/` (the prefix).";
    assert!(page.contains(role), "the page names another role");
    let options = ConnectOptions::new().with_user("root", ROOT);
    let endpoints = etcd.endpoints();
    let mut operator = Client::connect([endpoints[0].to_string()], Some(options)).await?;
    operator.role_add("locks").await?;
    let range = Permission::read_write("leasehold/").with_prefix();
    operator.role_grant_permission("locks", range).await?;
    operator.user_add("app", "hunter2", None).await?;
    operator.user_grant_role("app", "locks").await?;
    Ok(())
}

const ROOT: &str = "hunter3";

#[async_trait]
impl Harness for OnEtcd {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let options = EtcdOptions::new();
        let (etcd, login) = match self.members {
            1 => (Etcd::single(options.root_password(ROOT)).await?, "app:hunter2@"),
            _ => (Etcd::three(options).await?, ""),
        };
        if !login.is_empty() {
            make_user(&etcd).await?;
        }
        let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("etcd://{login}{}", endpoints.join(","));
        // Entries of dead clients end with their leases, and a case waits for that.
        let longest_lease = Some(Duration::from_secs(20));
        let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
        backend_etcd::connect(&url).await?.init(&init).await?;
        Ok(Store::new(url, etcd))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_etcd::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        &["limited_readers"]
    }

    fn lease(&self) -> Duration {
        // etcd's shortest lease with the kit's fast timers.
        Duration::from_secs(1)
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![
        Arc::new(OnEtcd { name: "etcd/single", members: 1 }),
        Arc::new(OnEtcd { name: "etcd/three", members: 3 }),
    ])
}
