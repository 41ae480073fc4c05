//! One client's connection: forwards each call to the server and its answer back.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    client::{self, SendRequest},
    server::{self, SendResponse},
};
use http::{Request, Response};
use tokio::{net::TcpStream, task::JoinSet};

use super::calls::{Counted, State};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The way to the server of one client's connection.
struct Upstream {
    address: SocketAddr,
    reconnects: bool,
    state: Arc<State>,
    requests: tokio::sync::Mutex<SendRequest<Bytes>>,
}

impl Upstream {
    async fn connect(
        address: SocketAddr,
        reconnects: bool,
        state: Arc<State>,
    ) -> Result<Self, Failure> {
        let requests = connect(address, state.connections.one()).await?;
        Ok(Self { address, reconnects, state, requests: tokio::sync::Mutex::new(requests) })
    }

    async fn ready(&self) -> Result<SendRequest<Bytes>, Failure> {
        let mut requests = self.requests.lock().await;
        match requests.clone().ready().await {
            Err(_) if self.reconnects => {
                *requests = connect(self.address, self.state.connections.one()).await?;
                Ok(requests.clone().ready().await?)
            }
            ready => Ok(ready?),
        }
    }
}

async fn connect(address: SocketAddr, open: Counted) -> Result<SendRequest<Bytes>, Failure> {
    let server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    let (requests, driver) = client::handshake(server).await?;
    // It ends with the connection, or with the last that may send over it.
    tokio::spawn(async move {
        drop(driver.await);
        drop(open);
    });
    Ok(requests)
}

pub(super) async fn connection(
    client: TcpStream,
    upstream: SocketAddr,
    reconnects: bool,
    state: Arc<State>,
) -> Result<(), Failure> {
    let upstream = Arc::new(Upstream::connect(upstream, reconnects, Arc::clone(&state)).await?);
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
    if let Some(message) = state.refuses(&method) {
        let answer = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "8")
            .header("grpc-message", message);
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
        return Ok(pump(body, downstream, at_once).await?);
    }
    let asking = pump(body, asks, at_once);
    let answering = async {
        let (head, body) = answer.await?.into_parts();
        let ends = body.is_end_stream();
        let downstream = respond.send_response(Response::from_parts(head, ()), ends)?;
        if ends {
            return Ok(());
        }
        Ok(pump(body, downstream, || state.delay(&method, call)).await?)
    };
    // A stream that one side ends lives on until the other does, too.
    let (_, answered) = futures_util::future::join(asking, answering).await;
    answered
}

/// Sends each message on after its `delay`; one without a delay is lost.
async fn pump(
    mut from: RecvStream,
    mut to: SendStream<Bytes>,
    delay: impl Fn() -> Option<Duration>,
) -> Result<(), h2::Error> {
    while let Some(part) = from.data().await {
        let part = part?;
        from.flow_control().release_capacity(part.len())?;
        let Some(delay) = delay() else { continue };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // Messages here are short: what is not sent yet waits in the library.
        to.send_data(part, false)?;
    }
    match from.trailers().await? {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    }
}

fn at_once() -> Option<Duration> {
    Some(Duration::ZERO)
}
