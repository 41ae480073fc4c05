//! A way from a follower to the leader on which the follower's reports of touched sessions can be
//! lost, and nothing else.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
};

/// The type of a packet by which a follower answers a ping of the leader: it has the touches.
const PING: i32 = 5;

/// Such a way.
pub(crate) struct Touches {
    address: SocketAddr,
    are_lost: Arc<AtomicBool>,
    /// Reports that were passed, and those that were lost.
    counts: Arc<[AtomicU64; 2]>,
}

impl Touches {
    /// A way to a leader.
    pub(crate) async fn start(leader: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (are_lost, counts) = (Arc::<AtomicBool>::default(), Arc::default());
        let (is_on, count) = (Arc::clone(&are_lost), Arc::clone(&counts));
        tokio::spawn(async move {
            while let Ok((follower, _)) = listener.accept().await {
                let Ok(leader) = TcpStream::connect(leader).await else { continue };
                let (mut from_leader, to_leader) = leader.into_split();
                let (from_follower, mut to_follower) = follower.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_leader, &mut to_follower).await;
                });
                let (is_on, count) = (Arc::clone(&is_on), Arc::clone(&count));
                tokio::spawn(async move {
                    let _ = pass(from_follower, to_leader, &is_on, &count).await;
                });
            }
        });
        Self { address, are_lost, counts }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, all reports are lost.
    pub(crate) fn lose(&self) {
        self.are_lost.store(true, Ordering::SeqCst);
    }

    /// How many were passed.
    pub(crate) fn passed(&self) -> u64 {
        self.counts[0].load(Ordering::SeqCst)
    }

    /// How many were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.counts[1].load(Ordering::SeqCst)
    }
}

/// Passes the packets of a follower: type, zxid, data, and a list of identities.
async fn pass(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    are_lost: &AtomicBool,
    counts: &[AtomicU64; 2],
) -> io::Result<()> {
    loop {
        let mut packet = vec![0; 12];
        from.read_exact(&mut packet).await?;
        buffer(&mut from, &mut packet).await?;
        for _ in 0..2 * number(&mut from, &mut packet).await? {
            buffer(&mut from, &mut packet).await?;
        }
        let is_report = packet[..4] == PING.to_be_bytes();
        let is_lost = is_report && are_lost.load(Ordering::SeqCst);
        if is_report {
            counts[usize::from(is_lost)].fetch_add(1, Ordering::SeqCst);
        }
        if !is_lost {
            to.write_all(&packet).await?;
        }
    }
}

/// Reads a number, which may be -1 for nothing.
async fn number(from: &mut tcp::OwnedReadHalf, packet: &mut Vec<u8>) -> io::Result<usize> {
    let number = from.read_i32().await?;
    packet.extend(number.to_be_bytes());
    Ok(usize::try_from(number).unwrap_or(0))
}

async fn buffer(from: &mut tcp::OwnedReadHalf, packet: &mut Vec<u8>) -> io::Result<()> {
    let (length, start) = (number(from, packet).await?, packet.len());
    packet.resize(start + length, 0);
    from.read_exact(&mut packet[start..]).await.map(drop)
}
