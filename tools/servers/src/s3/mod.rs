//! S3: moto's server, which compares and swaps honestly if one request is carried out at a time.
//!
//! It is a Python program. `scripts/install-test-servers` installs it with pip into a folder of its
//! own, in the versions of `requirements.txt`.

use std::{net::SocketAddr, path::Path, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    error::{Doing as _, KitError, Result},
    machine::ports::{self, Port},
    process::{Process, Spec},
    server::{Server, process_and},
};

/// Debian's, for which the packages are.
const PYTHON: &str = "/usr/bin/python3";
/// Where `scripts/install-test-servers` puts the packages.
const PACKAGES: &str = "/usr/local/lib/leasehold-test-servers/s3";
const PROGRAM: &str = include_str!("server.py");
/// A paused server does not answer; more than this is no answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A running S3 server with an empty bucket, `bucket`. It takes any credentials. Its objects end
/// with its process.
#[derive(Debug)]
pub struct S3 {
    process: Process,
    port: Port,
}

impl S3 {
    /// What a client finds in its environment: any credentials will do.
    pub const CREDENTIALS: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
    ];

    /// Starts a server, makes the bucket, and returns when it answers.
    ///
    /// # Errors
    ///
    /// [`KitError`], with the end of the server's log where it has one.
    pub async fn start() -> Result<Self> {
        ports::retry_taken(Self::try_start).await
    }

    async fn try_start() -> Result<Self> {
        if !Path::new(PACKAGES).is_dir() {
            let package = "python3-pip (scripts/install-test-servers installs the server with it)";
            return Err(KitError::MissingProgram { program: PACKAGES.to_owned(), package });
        }
        let port = Port::reserve()?;
        let folder = Process::folder_for(None)?;
        let program = folder.path().join("server.py");
        std::fs::write(&program, PROGRAM).doing(|| format!("write {}", program.display()))?;
        let spec = Spec::new(format!("s3 on port {}", port.number()), PYTHON)
            .args([program.as_os_str(), port.number().to_string().as_ref()])
            .env("PYTHONPATH", PACKAGES)
            // The packages belong to root, and are compiled.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let mut server = Self { process: Process::start(spec, folder)?, port };
        server.ready().await?;
        Ok(server)
    }

    /// The URL of a store in its bucket. The options follow it after `&`.
    pub fn store_url(&self) -> String {
        Self::store_url_at(self.address())
    }

    /// The same through a proxy.
    pub fn store_url_at(address: SocketAddr) -> String {
        format!("s3://bucket/some/prefix?endpoint=http://{address}")
    }

    /// Answers the next `count` requests with this status, 301, 429, 501 or 503, and does not carry
    /// them out.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] or [`KitError::Unexpected`] if it does not answer.
    pub async fn refuse(&self, status: u16, count: usize) -> Result<()> {
        self.ask("POST", &format!("/-/refuse/{status}/{count}")).await.map(drop)
    }

    /// How many requests it is still to refuse.
    ///
    /// # Errors
    ///
    /// As [`refuse`](Self::refuse).
    pub async fn refusals_left(&self) -> Result<usize> {
        let answer = self.ask("GET", "/-/refuse").await?;
        let last = answer.lines().last().unwrap_or_default();
        last.parse().map_err(|_| KitError::Unexpected(answer))
    }

    /// Makes an empty object at this path, with its bucket.
    ///
    /// # Errors
    ///
    /// As [`refuse`](Self::refuse).
    pub async fn put(&self, path: &str) -> Result<()> {
        self.ask("PUT", path).await.map(drop)
    }

    /// A request without a body; the whole answer.
    async fn ask(&self, method: &str, path: &str) -> Result<String> {
        let address = self.address();
        let exchange = async {
            let mut stream = TcpStream::connect(address).await?;
            let request =
                format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let answer = timeout(ANSWER_WITHIN, exchange).await.map_err(std::io::Error::from);
        let answer = answer.and_then(|answer| answer).doing(|| format!("ask S3 for {path}"))?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status == "200" { Ok(answer) } else { Err(KitError::Unexpected(answer)) }
    }
}

#[async_trait]
impl Server for S3 {
    process_and! { port }

    /// To make the bucket again is no error.
    async fn ready(&mut self) -> Result<()> {
        let address = self.address();
        self.process.ready(|| async move { TcpStream::connect(address).await.is_ok() }).await?;
        self.ask("PUT", "/bucket").await.map(drop)
    }
}
