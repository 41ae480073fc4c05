//! A proxy that knows HTTP/2: one stream of a connection can be stuck while the others go on, without
//! an error on either side, and one call can arrive long after its caller has gone. The kit's
//! [`Proxy`](crate::Proxy) knows whole connections only.

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
    sync::oneshot,
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
#[derive(Debug, Default)]
struct Method {
    opened: u64,
    /// Calls that were opened before this one are stuck.
    stuck: u64,
    swallowed: u64,
    /// The next call whose request contains this is held.
    wanted: Option<Vec<u8>>,
    held: Option<Held>,
    /// Calls are refused.
    refuses: bool,
    refused: u64,
}

/// A call that waits in the proxy.
#[derive(Debug)]
struct Held {
    go: oneshot::Sender<()>,
    /// Ends when the server has answered.
    answered: oneshot::Receiver<()>,
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

    /// Whether a call is refused; counts one if so.
    fn refuses(&self, method: &str) -> bool {
        let mut methods = self.methods();
        let Some(method) = methods.get_mut(method) else { return false };
        method.refused += u64::from(method.refuses);
        method.refuses
    }

    fn wants(&self, method: &str) -> bool {
        self.methods().get(method).is_some_and(|method| method.wanted.is_some())
    }

    /// If it is this request that is to be held: what tells it to go on, and what tells that it was answered.
    fn hold(
        &self,
        method: &str,
        request: &[u8],
    ) -> Option<(oneshot::Receiver<()>, oneshot::Sender<()>)> {
        let mut methods = self.methods();
        let method = methods.get_mut(method)?;
        let contains = |wanted: &Vec<u8>| {
            wanted.is_empty() || request.windows(wanted.len()).any(|window| window == wanted)
        };
        method.wanted.take_if(|wanted| contains(wanted))?;
        let ((go, gone), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        method.held = Some(Held { go, answered });
        Some((gone, answer))
    }
}

impl Streams {
    /// Starts a proxy to a member without TLS.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io) or [`KitError::NoPort`](crate::KitError::NoPort).
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, false).await
    }

    /// The same, but its clients keep their connections when the server is replaced by another: it connects
    /// anew behind their backs.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn reconnecting(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, true).await
    }

    async fn build(upstream: SocketAddr, reconnects: bool) -> Result<Self> {
        let port = Port::reserve()?;
        let address = port.address();
        let listener = TcpListener::bind(address).await.doing(|| format!("listen on {address}"))?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let acceptor = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A connection that fails is the client's matter, which sees it end.
                connections.spawn(connection(client, upstream, reconnects, Arc::clone(&shared)));
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

    /// The next call of this method, such as `Txn`, whose request contains the text waits here: its caller
    /// gets no answer, and it arrives with [`deliver`](Self::deliver), also after its caller has gone. For
    /// methods with one request and one answer.
    pub fn hold_next(&self, method: &str, text: &str) {
        let mut methods = self.state.methods();
        methods.entry(method.to_owned()).or_default().wanted = Some(text.into());
    }

    /// Sends the call of this method on that is held, and waits until the server has answered it; `false` if
    /// none is.
    pub async fn deliver(&self, method: &str) -> bool {
        let held = self.state.methods().get_mut(method).and_then(|method| method.held.take());
        let Some(Held { go, answered }) = held else { return false };
        let sent = go.send(()).is_ok();
        // It ends with the call, whether or not anybody is there to be told.
        let _ = answered.await;
        sent
    }

    /// From now on calls of this method, such as `LeaseRevoke`, do not arrive: they are answered as by a
    /// server that has too much to do. Until [`serve`](Self::serve).
    pub fn refuse(&self, method: &str) {
        self.state.methods().entry(method.to_owned()).or_default().refuses = true;
    }

    /// Lets calls of this method arrive again.
    pub fn serve(&self, method: &str) {
        self.state.methods().entry(method.to_owned()).or_default().refuses = false;
    }

    /// How many calls of this method were refused.
    pub fn refused(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.refused)
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

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The way to the server of one client's connection.
struct Upstream {
    address: SocketAddr,
    reconnects: bool,
    requests: tokio::sync::Mutex<SendRequest<Bytes>>,
}

impl Upstream {
    async fn connect(address: SocketAddr, reconnects: bool) -> Result<Self, Failure> {
        let requests = tokio::sync::Mutex::new(connect(address).await?);
        Ok(Self { address, reconnects, requests })
    }

    async fn ready(&self) -> Result<SendRequest<Bytes>, Failure> {
        let mut requests = self.requests.lock().await;
        match requests.clone().ready().await {
            Err(_) if self.reconnects => {
                *requests = connect(self.address).await?;
                Ok(requests.clone().ready().await?)
            }
            ready => Ok(ready?),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Bytes>, Failure> {
    let server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    let (requests, driver) = client::handshake(server).await?;
    // It ends with the connection, or with the last that may send over it.
    tokio::spawn(async move { drop(driver.await) });
    Ok(requests)
}

async fn connection(
    client: TcpStream,
    upstream: SocketAddr,
    reconnects: bool,
    state: Arc<State>,
) -> Result<(), Failure> {
    let upstream = Arc::new(Upstream::connect(upstream, reconnects).await?);
    client.set_nodelay(true)?;
    let mut calls = JoinSet::new();
    let mut accepted = server::handshake(client).await?;
    while let Some(call) = accepted.accept().await {
        let (request, respond) = call?;
        let (upstream, state) = (Arc::clone(&upstream), Arc::clone(&state));
        calls.spawn(async move { drop(forward(request, respond, &upstream, &state).await) });
    }
    Ok(())
}

async fn forward(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    upstream: &Upstream,
    state: &State,
) -> Result<(), Failure> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let call = state.open(&method);
    if state.refuses(&method) {
        let answer = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "8")
            .header("grpc-message", "etcdserver: too many requests");
        respond.send_response(answer.body(())?, true)?;
        return Ok(());
    }
    let (head, mut body) = request.into_parts();
    let (mut read, mut answered) = (Vec::new(), None);
    if state.wants(&method) {
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            read.extend(part);
        }
        if let Some((go, answer)) = state.hold(&method, &read) {
            // The end of the proxy, too, ends the wait: then there is nobody to send it.
            if go.await.is_err() {
                return Ok(());
            }
            answered = Some(answer);
        }
    }
    let mut requests = upstream.ready().await?;
    let (answer, mut asks) = requests.send_request(Request::from_parts(head, ()), false)?;
    if !read.is_empty() {
        asks.send_data(read.into(), false)?;
    }
    if answered.is_some() {
        // Its caller may have gone, and then there is nothing more to be read.
        asks.send_data(Bytes::new(), true)?;
        let (head, body) = answer.await?.into_parts();
        drop(answered);
        let downstream = respond.send_response(Response::from_parts(head, ()), false)?;
        return Ok(pump(body, downstream, || false).await?);
    }
    let asking = pump(body, asks, || false);
    let answering = async {
        let (head, body) = answer.await?.into_parts();
        let ends = body.is_end_stream();
        let downstream = respond.send_response(Response::from_parts(head, ()), ends)?;
        if ends {
            return Ok(());
        }
        Ok(pump(body, downstream, || state.swallows(&method, call)).await?)
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
