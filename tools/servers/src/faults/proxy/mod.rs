//! A TCP proxy between a client and a server, whose faults are switched while connections live.

mod alter;
mod mode;
mod pump;
mod state;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, RwLock},
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use self::{
    alter::Alteration,
    pump::pump,
    state::{Direction, End, State},
};
pub use self::{
    alter::{Change, guard_length, marker},
    mode::Mode,
    state::{Bytes, Counters},
};
use crate::{
    error::{Doing as _, KitError, Result},
    machine::ports::Port,
};

/// A proxy on a port of 127.0.0.1. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    switch: mpsc::UnboundedSender<oneshot::Sender<io::Result<()>>>,
    acceptor: JoinHandle<()>,
    _port: Port,
}

impl Proxy {
    /// Starts a proxy to a server, in [`Mode::Pass`], on the current runtime.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] or [`KitError::NoPort`].
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, Vec::new())
    }

    /// Starts a proxy that puts some texts in the place of others in what clients send, for a
    /// server whose scripts or statements lack a guard. [`Counters::altered`] tells how often it
    /// did.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); [`KitError::Unexpected`] if a text is longer than the one in
    /// whose place it is to stand.
    pub async fn altering(upstream: SocketAddr, texts: &[(&str, &str)]) -> Result<Self> {
        Self::changing(upstream, &self::texts(texts)).await
    }

    /// Starts a proxy that makes these changes in what clients send. [`Counters::altered`] tells
    /// how often it did.
    ///
    /// # Errors
    ///
    /// As [`altering`](Self::altering).
    pub async fn changing(upstream: SocketAddr, changes: &[Change<'_>]) -> Result<Self> {
        Self::build(upstream, alterations(changes)?)
    }

    /// Puts texts in the place of others in what the server answers, on connections that come
    /// later: so a server that tells clients where others are sends them to proxies.
    ///
    /// # Errors
    ///
    /// As [`altering`](Self::altering).
    pub fn alter_answers(&self, texts: &[(&str, &str)]) -> Result<()> {
        let made = alterations(&self::texts(texts))?;
        *self.state.of_answers.write().unwrap_or_else(std::sync::PoisonError::into_inner) = made;
        Ok(())
    }

    fn build(upstream: SocketAddr, alterations: Vec<Alteration>) -> Result<Self> {
        let (port, listener) = Port::listen()?;
        let address = port.address();
        let state = Arc::new(State {
            mode: RwLock::default(),
            upstream: RwLock::new(upstream),
            alterations,
            of_answers: RwLock::default(),
            changed: watch::Sender::default(),
            counters: watch::Sender::default(),
        });
        let (switch, switched) = mpsc::unbounded_channel();
        let acceptor = Acceptor { address, state: state.clone(), listener: Some(listener) };
        let acceptor = tokio::spawn(acceptor.run(switched));
        Ok(Self { address, state, switch, acceptor, _port: port })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.state.mode()
    }

    /// Switches the mode. On return nothing moves under the old one any more, and after
    /// [`Mode::Cut`] and [`Mode::Reset`] no connection is left.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] if after [`Mode::Cut`] the port could not be had again.
    pub async fn set(&self, mode: Mode) -> Result<()> {
        *self.state.mode.write().unwrap_or_else(std::sync::PoisonError::into_inner) = mode;
        self.state.changed.send_modify(|generation| *generation += 1);
        let (done, is_done) = oneshot::channel();
        let gone = || KitError::Unexpected("the proxy's runtime has ended".to_owned());
        self.switch.send(done).map_err(|_| gone())?;
        let switched = is_done.await.map_err(|_| gone())?;
        switched.doing(|| format!("listen on {} again", self.address))?;
        if matches!(mode, Mode::Cut | Mode::Reset) {
            self.until("the connections to end", Duration::from_secs(60), |now| now.open == 0)
                .await?;
        }
        Ok(())
    }

    /// Sends later connections to another server: an address that moves with its service.
    pub fn redirect(&self, upstream: SocketAddr) {
        *self.state.upstream.write().unwrap_or_else(std::sync::PoisonError::into_inner) = upstream;
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        *self.state.counters.borrow()
    }

    /// Waits until the counters fulfil a condition, such as that a reply was swallowed.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`] naming `what`, with the counters.
    pub async fn until(
        &self,
        what: &str,
        deadline: Duration,
        mut reached: impl FnMut(&Counters) -> bool,
    ) -> Result<Counters> {
        let mut counters = self.state.counters.subscribe();
        // Bound first: the wait's result borrows the channel.
        let waited = tokio::time::timeout(deadline, counters.wait_for(&mut reached)).await;
        if let Ok(Ok(now)) = waited {
            return Ok(*now);
        }
        let log = format!("{:?}", self.counters());
        Err(KitError::TimedOut { what: format!("the proxy: {what}"), waited: deadline, log })
    }
}

fn alterations(changes: &[Change<'_>]) -> Result<Vec<Alteration>> {
    let refusal = |change| KitError::Unexpected(format!("{change:?} is not possible"));
    changes.iter().map(|it| Alteration::of(*it).ok_or_else(|| refusal(it))).collect()
}

fn texts<'a>(texts: &[(&'a str, &'a str)]) -> Vec<Change<'a>> {
    texts.iter().map(|(from, to)| Change::Text(from, to)).collect()
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its connections live in it and end with it.
        self.acceptor.abort();
    }
}

struct Acceptor {
    address: SocketAddr,
    state: Arc<State>,
    listener: Option<TcpListener>,
}

impl Acceptor {
    async fn run(mut self, mut switched: mpsc::UnboundedReceiver<oneshot::Sender<io::Result<()>>>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // A switch goes first, so that nothing is accepted under the old mode.
                biased;
                switch = switched.recv() => {
                    let Some(done) = switch else { return };
                    // The caller may have gone; the switch is made all the same.
                    let _ = done.send(self.listen_or_not().await);
                }
                accepted = accept(self.listener.as_ref()) => {
                    // Accepting fails for a client that has gone again; the others go on.
                    let Ok(client) = accepted else { continue };
                    self.state.counters.send_modify(|c| { c.accepted += 1; c.open += 1; });
                    connections.spawn(connection(client, self.state.upstream(), self.state.clone()));
                }
                _ended = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    /// Connections are refused while the port has no listener.
    async fn listen_or_not(&mut self) -> io::Result<()> {
        if self.state.mode() == Mode::Cut {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(listen_again(self.address).await?);
        }
        Ok(())
    }
}

/// A child that was forked while the proxy listened has its socket until it runs its program.
async fn listen_again(address: SocketAddr) -> io::Result<TcpListener> {
    const TRIES: usize = 200;
    for _ in 1..TRIES {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            done => return done,
        }
    }
    TcpListener::bind(address).await
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

async fn connection(client: TcpStream, upstream: SocketAddr, state: Arc<State>) {
    let mut changed = state.changed.subscribe();
    let connecting = async {
        loop {
            match state.mode() {
                Mode::Cut => return Err(End::Cut),
                Mode::Reset => return Err(End::Reset),
                _ => {}
            }
            tokio::select! {
                server = TcpStream::connect(upstream) => return server.map_err(|_| End::Reset),
                _ = changed.changed() => {}
            }
        }
    };
    let mut server = None;
    let end = match connecting.await {
        Err(end) => end,
        Ok(stream) => {
            let server = &*server.insert(stream);
            // Nagle's wait would add to the measured times.
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            let both = futures_util::future::try_join(
                pump(&client, server, Direction::ToServer, &state),
                pump(server, &client, Direction::ToClient, &state),
            );
            both.await.map_or_else(|end| end, |_| End::Closed)
        }
    };
    for stream in std::iter::once(&client).chain(&server).filter(|_| end == End::Reset) {
        // With no time to linger, closing sends RST.
        let _ = set_socket_linger(stream, Some(Duration::ZERO));
    }
    drop((client, server));
    state.counters.send_modify(|counters| {
        counters.open -= 1;
        counters.cut += u64::from(end == End::Cut);
        counters.reset += u64::from(end == End::Reset);
    });
}
