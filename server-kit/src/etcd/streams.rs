//! A proxy that knows HTTP/2: one stream of a connection can be stuck while the others go on, without
//! an error on either side. The kit's [`Proxy`](crate::Proxy) knows whole connections only.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    client::{self, SendRequest},
    server::{self, SendResponse},
};
use http::{Request, Response};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::{
    error::{Doing as _, Result},
    ports::Port,
};

/// A proxy of gRPC calls. Dropping it closes its connections.
#[derive(Debug)]
pub struct Streams {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: JoinHandle<()>,
    _port: Port,
}

#[derive(Debug, Default)]
struct State(Mutex<HashMap<String, Method>>);

/// What happened to the calls of one method.
#[derive(Clone, Copy, Debug, Default)]
struct Method {
    opened: u64,
    /// Calls that were opened before this one are stuck.
    stuck: u64,
    swallowed: u64,
}

impl State {
    fn methods(&self) -> MutexGuard<'_, HashMap<String, Method>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, method: &str) -> u64 {
        let mut methods = self.methods();
        let method = methods.entry(method.to_owned()).or_default();
        method.opened += 1;
        method.opened
    }

    /// Whether the server's messages to this call are lost; counts one if so.
    fn swallows(&self, method: &str, call: u64) -> bool {
        let mut methods = self.methods();
        let Some(method) = methods.get_mut(method) else { return false };
        let swallows = call <= method.stuck;
        method.swallowed += u64::from(swallows);
        swallows
    }
}

impl Streams {
    /// Starts a proxy to a member without TLS.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io) or [`KitError::NoPort`](crate::KitError::NoPort).
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let port = Port::reserve()?;
        let address = port.address();
        let listener = TcpListener::bind(address).await.doing(|| format!("listen on {address}"))?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let acceptor = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A connection that fails is the client's matter, which sees it end.
                connections.spawn(connection(client, upstream, Arc::clone(&shared)));
            }
        });
        Ok(Self { address, state, acceptor, _port: port })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the calls of this method that are open, such as `LeaseKeepAlive`, get no message any
    /// more. Later ones do.
    pub fn stick(&self, method: &str) {
        let mut methods = self.state.methods();
        let method = methods.entry(method.to_owned()).or_default();
        method.stuck = method.opened;
    }

    /// How many calls of this method were opened.
    pub fn opened(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.opened)
    }

    /// How many messages were lost.
    pub fn swallowed(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.swallowed)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn connection(
    client: TcpStream,
    upstream: SocketAddr,
    state: Arc<State>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (requests, driver) = client::handshake(server).await?;
    let mut calls = JoinSet::new();
    calls.spawn(async move { drop(driver.await) });
    let mut accepted = server::handshake(client).await?;
    while let Some(call) = accepted.accept().await {
        let (request, respond) = call?;
        let (requests, state) = (requests.clone(), Arc::clone(&state));
        calls.spawn(async move { drop(forward(request, respond, requests, &state).await) });
    }
    Ok(())
}

async fn forward(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    requests: SendRequest<Bytes>,
    state: &State,
) -> Result<(), h2::Error> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let call = state.open(&method);
    let (head, body) = request.into_parts();
    let mut requests = requests.ready().await?;
    let (answer, upstream) = requests.send_request(Request::from_parts(head, ()), false)?;
    let asking = pump(body, upstream, || false);
    let answering = async {
        let (head, body) = answer.await?.into_parts();
        let ends = body.is_end_stream();
        let downstream = respond.send_response(Response::from_parts(head, ()), ends)?;
        if ends {
            return Ok(());
        }
        pump(body, downstream, || state.swallows(&method, call)).await
    };
    // A stream that one side ends lives on until the other does, too.
    let (_, answered) = futures_util::future::join(asking, answering).await;
    answered
}

async fn pump(
    mut from: RecvStream,
    mut to: SendStream<Bytes>,
    swallows: impl Fn() -> bool,
) -> Result<(), h2::Error> {
    while let Some(part) = from.data().await {
        let part = part?;
        from.flow_control().release_capacity(part.len())?;
        if !swallows() {
            // Messages here are short: what is not sent yet waits in the library.
            to.send_data(part, false)?;
        }
    }
    match from.trailers().await? {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    }
}
