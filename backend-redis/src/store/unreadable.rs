//! Finds the key because of which a script failed: somebody else has changed it.

use lock_core::{Error, ErrorKind};
use redis::{Cmd, RedisError, Value};

use crate::{
    connection::Connection,
    keys::{Content, Keys},
    scripts::reply,
};

/// The fields of an epoch record that scripts read as numbers, those of Redlock and of foreign
/// layouts too.
const NUMBERS: [&str; 7] = ["longest", "from", "span", "clock", "crowd", "top", "theirs"];

/// The error that names an epoch record and its remedy.
pub(super) fn epoch(key: &str, what: &str) -> Error {
    refuse(key, what, "remove the key with DEL; then nothing is granted for one longest lease")
}

/// The error that names the key of a record.
pub(crate) fn record(key: &str) -> Error {
    refuse(key, "has no record", "remove the key with DEL, or let the next write replace it")
}

fn refuse(key: &str, what: &str, remedy: &str) -> Error {
    let message = format!("the key {key:?} {what}, which this library did not write; {remedy}");
    Error::new(ErrorKind::Config, message)
}

/// Looks for the cause of a refusal in the contents of these keys. Ends with success if it is not
/// there.
///
/// # Errors
/// `Config`, with the key and the remedy; those of the connection.
pub(super) async fn check(
    on: &Connection,
    all: &Keys,
    keys: &[String],
    refusal: &RedisError,
) -> Result<(), Error> {
    for key in keys {
        if let Some(error) = problem(on, all.content(key), key).await? {
            return Err(error.with_source(refusal.clone()));
        }
    }
    Ok(())
}

async fn problem(
    on: &Connection,
    content: Option<Content>,
    key: &str,
) -> Result<Option<Error>, Error> {
    let remedy = "remove the key with DEL";
    let ask = |command: &str| {
        let mut ask = redis::cmd(command);
        ask.arg(key);
        ask
    };
    let another_type = || Some(refuse(key, "has another type", remedy));
    Ok(match content {
        None => None,
        Some(Content::Epoch) => match read(on, ask("HMGET").arg("run").arg(&NUMBERS)).await? {
            Read::AnotherType => Some(epoch(key, "has another type")),
            Read::Value(answer) => unreadable_number(answer).map(|what| epoch(key, &what)),
            Read::Refused => None,
        },
        Some(Content::Entries) => match read(on, ask("HGET").arg("")).await? {
            Read::AnotherType => another_type(),
            Read::Value(_) | Read::Refused => None,
        },
        Some(Content::Text) => match read(on, &ask("GET")).await? {
            Read::AnotherType => another_type(),
            Read::Value(_) | Read::Refused => None,
        },
        Some(Content::Queue) => {
            let (list, set) = (read(on, &ask("LLEN")).await?, read(on, &ask("ZCARD")).await?);
            let neither = !matches!(list, Read::Value(_)) && !matches!(set, Read::Value(_));
            let known = matches!(list, Read::AnotherType) || matches!(set, Read::AnotherType);
            if neither && known { another_type() } else { None }
        }
        Some(Content::Token) => {
            let remedy = "set it to the highest token that the fence has admitted (without the key, a stale token \
                          would be admitted)";
            match read(on, &ask("GET")).await? {
                Read::AnotherType => Some(refuse(key, "has another type", remedy)),
                Read::Value(Value::Nil) | Read::Refused => None,
                Read::Value(value) => {
                    let unreadable = reply::token(&value).is_err();
                    unreadable.then(|| refuse(key, "has no token", remedy))
                }
            }
        }
    })
}

/// What is wrong with the run and the numbers of an epoch record.
fn unreadable_number(answer: Value) -> Option<String> {
    let values = reply::list(answer).ok()?;
    let (run, values) = values.split_first()?;
    values.iter().zip(NUMBERS).find_map(|(value, field)| match value {
        // Each record with a run has it.
        Value::Nil if field == "from" && *run != Value::Nil => {
            Some(format!("has no field {field:?}"))
        }
        Value::Nil => None,
        value => {
            let text = reply::text(value).unwrap_or("no text");
            text.parse::<f64>().is_err().then(|| format!("has {text:?} in the field {field:?}"))
        }
    })
}

enum Read {
    Value(Value),
    AnotherType,
    Refused,
}

async fn read(on: &Connection, command: &Cmd) -> Result<Read, Error> {
    Ok(match on.send(command).await? {
        Ok(value) => Read::Value(value),
        Err(refusal) if refusal.code() == Some("WRONGTYPE") => Read::AnotherType,
        Err(_) => Read::Refused,
    })
}
