//! A direct connection to a server that `redis-cli` can no longer reach.

use std::net::SocketAddr;

use redis::{RedisError, aio::MultiplexedConnection};

pub(crate) async fn talk_to(address: SocketAddr) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}")).unwrap();
    let config =
        redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// The answer, which must be one text or number.
pub(crate) async fn said(to: &mut MultiplexedConnection, words: &[&str]) -> String {
    say(to, words).await.unwrap()
}

/// The answer, or the server's error.
pub(crate) async fn say(
    to: &mut MultiplexedConnection,
    words: &[&str],
) -> Result<String, RedisError> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answer = to.send_packed_command(&command).await?.extract_error()?;
    Ok(redis::from_redis_value(answer).unwrap())
}
