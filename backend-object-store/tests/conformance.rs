//! The conformance suite over a bucket in memory. If `LEASEHOLD_S3_PYTHON` names a Python that has
//! the packages of `pip install 'moto[server]'`, the suite also runs over S3, by the URL that users
//! have.

use std::{
    env,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions},
};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init, async_trait};
use object_store::memory::InMemory;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// The credentials of the server, as the clouds' own tools find them.
const CREDENTIALS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")];

/// A bucket in this process. Its requests take no time, so its leases may be short.
struct InABucket(Arc<InMemory>);

#[async_trait]
impl Harness for InABucket {
    fn name(&self) -> &'static str {
        "object-store/memory"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        let bucket = Arc::clone(&self.0);
        let mut options = CasOptions::new("object-store");
        options.shortest_lease = Duration::from_millis(100);
        let objects = Objects::new(bucket, "some/prefix")?;
        Ok(Arc::new(CasBackend::open(Arc::new(objects), options).await?))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    /// The store has no queue, no push and no shared locks, and is for one process.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "limited_readers", "processes"]
    }
}

/// A bucket in a server of S3.
struct OverS3(String);

#[async_trait]
impl Harness for OverS3 {
    fn name(&self) -> &'static str {
        "object-store/s3"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let mut server = tokio::process::Command::new(&self.0)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/s3_server.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = server.stdout.take().ok_or("no stdout")?;
        let port = BufReader::new(lines).lines().next_line().await?.ok_or("no port")?;
        // A new bucket.
        let mut connection = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
        let request =
            format!("PUT /bucket HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        if !answer.contains(" 200 ") {
            return Err(answer.into());
        }
        let url = format!("s3://bucket/some/prefix?endpoint=http://127.0.0.1:{port}&timeout=20s");
        // The server is slow: a long case must not outlast its leases.
        let longest = Init::new().with_longest_lease(Duration::from_secs(120));
        backend_object_store::connect(&url).await?.init(&longest).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_object_store::connect(address).await
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// The store has no queue, no push and no shared locks.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "limited_readers"]
    }
}

fn main() -> ExitCode {
    let mut stores: Vec<Arc<dyn Harness>> = vec![Arc::new(InABucket(Arc::default()))];
    if let Ok(python) = env::var("LEASEHOLD_S3_PYTHON") {
        if env::var(CREDENTIALS[0].0).as_deref() != Ok(CREDENTIALS[0].1) {
            return with_credentials();
        }
        stores.push(Arc::new(OverS3(python)));
    }
    conformance_tests::main(stores)
}

/// Runs this program again, with the credentials in its environment.
fn with_credentials() -> ExitCode {
    let again = env::current_exe().and_then(|program| {
        Command::new(program).args(env::args_os().skip(1)).envs(CREDENTIALS).status()
    });
    match again {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
