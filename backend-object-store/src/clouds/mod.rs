//! The stores of the clouds, and all servers that speak their protocols.

mod http;
mod profile;
mod url;
mod variables;

use std::{ffi::OsString, sync::Arc, time::Duration};

use ::url::Url;
use lock_core::{Backend, ConnectionSecurity, Error, ErrorKind, is_loopback, plaintext_refusal};
use object_store::{
    ClientOptions, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};

use self::{
    http::Connector,
    url::{Cloud, Place, endpoint, parse},
    variables::Variables,
};
use crate::{
    Objects,
    cas::{CasBackend, CasOptions},
};

/// The variables that name a server, the first one first.
const OF_AMAZON: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
const OF_AZURE: [&str; 2] = ["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"];

/// Opens the store that a URL describes:
///
/// - `s3://BUCKET/PREFIX?region=…&endpoint=…`, with the credentials of the environment
///   (`AWS_ACCESS_KEY_ID`, …), of a profile in `~/.aws`, a web identity, a container or an
///   instance;
/// - `gs://BUCKET/PREFIX`, with a service account (`GOOGLE_SERVICE_ACCOUNT`), the application
///   default credentials, or those of an instance;
/// - `az://CONTAINER/PREFIX?account=…&endpoint=…`, with the credentials of the environment
///   (`AZURE_STORAGE_ACCOUNT_KEY`, …), a workload identity or a managed one.
///
/// Common options: `timeout=5s`, `longest_lease=30s` (refused if the store has another), and
/// `plaintext=on` for an endpoint with `http://` on another machine. A URL has no credentials.
///
/// # Errors
/// `InvalidInput` for a URL of another form; `Config` if a value of the environment or a profile
/// cannot be used, and as [`CasBackend::open`]. No message shows a credential.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let text = |(key, value): (OsString, OsString)| {
        Some((key.into_string().ok()?, value.into_string().ok()?))
    };
    let variables: Vec<_> = std::env::vars_os().filter_map(text).collect();
    connect_with(url, variables).await
}

/// As [`connect`], with these variables in the place of those of the environment: for a program
/// that has its credentials from elsewhere.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(
    url: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn Backend>, Error> {
    let mut variables = Variables::new(variables);
    let at = |error: Error| error.at("object-store", "connect");
    let mut place = parse(url).map_err(at)?;
    if place.cloud == Cloud::Amazon {
        profile::add(&mut variables).map_err(at)?;
    }
    let endpoints: &[&str] = match place.cloud {
        Cloud::Amazon => &OF_AMAZON,
        Cloud::Azure => &OF_AZURE,
        Cloud::Google => &[],
    };
    let given = endpoints.iter().find_map(|name| Some((name, variables.get(name)?)));
    if let (None, Some((name, value))) = (&place.endpoint, given) {
        place.endpoint = Some(endpoint(ErrorKind::Config, name, value).map_err(at)?);
    }
    let (store, connection) = open(&place, &variables).map_err(at)?;
    let mut options = CasOptions::new("object-store");
    if place.cloud == Cloud::Google {
        // A lease is renewed each third of its time, and Google takes one write a second of an
        // object.
        options.shortest_lease = Duration::from_secs(5);
    }
    options.longest_lease = place.longest_lease;
    options.timeout = place.timeout;
    options.connection = connection;
    let objects = Objects::new(store, &place.prefix).map_err(at)?;
    Ok(Arc::new(CasBackend::open(Arc::new(objects), options).await?))
}

fn open(
    place: &Place,
    variables: &Variables,
) -> Result<(Arc<dyn ObjectStore>, ConnectionSecurity), Error> {
    // A write that is repeated on the way may be answered with a refusal of the repeat. The steps
    // repeat themselves.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    // An answer that does not come is asked for again within the time limit of the call.
    let connector = Connector { timeout: place.timeout / 2 };
    let failed = |error: object_store::Error| {
        // A parser shows what it has read.
        if error.to_string().contains("Unable to decode") {
            return Error::new(ErrorKind::Config, "the credentials cannot be decoded");
        }
        let message = "the store cannot be used with these settings";
        Error::new(ErrorKind::Config, message).with_source(error)
    };
    let endpoint = place.endpoint.as_ref();
    let connection = security(endpoint, place.plaintext)?;
    let plain = endpoint.is_some_and(|endpoint| endpoint.scheme() == "http");
    let endpoint = endpoint.map(|endpoint| endpoint.as_str().trim_end_matches('/'));
    let store: Arc<dyn ObjectStore> = match place.cloud {
        Cloud::Amazon => {
            let mut builder = variables
                .known("AWS_")
                .fold(AmazonS3Builder::new(), |it, (key, value)| it.with_config(key, value))
                .with_bucket_name(&place.bucket)
                .with_conditional_put(S3ConditionalPut::ETagMatch)
                .with_allow_http(plain)
                .with_retry(retry)
                .with_http_connector(connector);
            if let Some(region) = &place.region {
                builder = builder.with_region(region);
            }
            if let Some(endpoint) = endpoint {
                builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        Cloud::Google => {
            let mut builder = variables
                .known("GOOGLE_")
                .fold(GoogleCloudStorageBuilder::new(), |it, (key, value)| {
                    it.with_config(key, value)
                })
                .with_bucket_name(&place.bucket)
                .with_client_options(ClientOptions::new().with_allow_http(plain))
                .with_retry(retry)
                .with_http_connector(connector);
            if let Some(endpoint) = endpoint {
                builder = builder.with_base_url(endpoint);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        Cloud::Azure => {
            let mut builder = variables
                .known("AZURE_")
                .fold(MicrosoftAzureBuilder::new(), |it, (key, value)| it.with_config(key, value))
                .with_container_name(&place.bucket)
                // For an emulator the library would pass over the endpoint.
                .with_use_emulator(false)
                .with_allow_http(plain)
                .with_retry(retry)
                .with_http_connector(connector);
            // Of a managed identity.
            if let Some(at) = variables.get("IDENTITY_ENDPOINT") {
                builder = builder.with_msi_endpoint(at);
            }
            if let Some(account) = &place.account {
                builder = builder.with_account(account);
            }
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.to_owned());
            }
            Arc::new(builder.build().map_err(failed)?)
        }
    };
    Ok((store, connection))
}

/// Refuses to send requests, which may carry a token, unencrypted to another machine.
fn security(endpoint: Option<&Url>, plaintext: bool) -> Result<ConnectionSecurity, Error> {
    let plain = endpoint.filter(|endpoint| endpoint.scheme() == "http");
    let Some(host) = plain.and_then(Url::host_str) else {
        return Ok(ConnectionSecurity::Verified);
    };
    match (is_loopback(host), plaintext) {
        (true, _) => Ok(ConnectionSecurity::Local),
        (false, true) => Ok(ConnectionSecurity::Plain),
        (false, false) => Err(plaintext_refusal("an endpoint with https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unencrypted_endpoint_is_on_this_machine_or_allowed() {
        use ConnectionSecurity::{Local, Plain, Verified};
        for (endpoint, plaintext, expected) in [
            (None, false, Some(Verified)),
            (Some("https://s3.example"), false, Some(Verified)),
            (Some("http://127.0.0.1:9000"), false, Some(Local)),
            (Some("http://[::1]:9000/"), false, Some(Local)),
            (Some("http://localhost"), false, Some(Local)),
            (Some("http://s3.example:9000"), true, Some(Plain)),
            (Some("http://s3.example:9000"), false, None),
            (Some("http://127.0.0.1.example"), false, None),
            (Some("HTTP://s3.example"), false, None),
        ] {
            let url = endpoint.map(|endpoint| Url::parse(endpoint).unwrap());
            assert_eq!(security(url.as_ref(), plaintext).ok(), expected, "{endpoint:?}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_of_the_environment_is_named() {
        for (url, name, value, told) in [
            ("s3://bucket", "AWS_ENDPOINT_URL", "s3.example:9000", "must be http://HOST:PORT"),
            ("az://box?account=me", "AZURE_STORAGE_ENDPOINT", "blob.example", "must be http://"),
            ("az://box?account=me", "AZURE_ENDPOINT", "http://blob.example", "plaintext=on"),
        ] {
            let wrong = [(name.to_owned(), value.to_owned())];
            let error = connect_with(url, wrong).await.unwrap_err();
            assert!(!error.is_retryable() && error.to_string().contains(told), "{error}");
        }
    }

    #[tokio::test]
    async fn a_prefix_that_is_too_long_is_refused_before_the_store_is_touched() {
        let endpoint = [("AWS_ENDPOINT_URL".to_owned(), "http://127.0.0.1:1".to_owned())];
        let url = format!("s3://bucket/{}", "p".repeat(253));
        let error = connect_with(&url, endpoint).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("at most 252 bytes"), "{error}");
    }

    #[tokio::test]
    async fn no_secret_is_shown() {
        let url = "s3://bucket/a/b?region=eu-west-1&endpoint=http://127.0.0.1:1";
        let place = parse(url).unwrap();
        let builder = AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_region("eu-west-1")
            .with_access_key_id("key")
            .with_secret_access_key("hunter2")
            .with_token("hunter3")
            .with_http_connector(Connector { timeout: place.timeout });
        let objects = Objects::new(Arc::new(builder.build().unwrap()), &place.prefix).unwrap();
        let options = CasOptions::new("object-store");
        let shown = format!("{objects:?} {options:?} {place:?}");
        assert!(!shown.contains("hunter") && shown.contains("a/b"), "{shown}");
    }

    /// A variable of the library would send all requests, unencrypted, to the emulator.
    #[tokio::test]
    async fn the_endpoint_comes_before_an_emulator() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let variables =
            [("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let url = format!("az://box?account=me&timeout=100ms&endpoint=http://{address}");
        connect_with(&url, variables).await.unwrap_err();
        server.set_nonblocking(true).unwrap();
        assert!(server.accept().is_ok(), "the request went elsewhere");
    }

    #[tokio::test]
    async fn credentials_that_cannot_be_used_are_not_shown() {
        let account = "GOOGLE_SERVICE_ACCOUNT_KEY";
        let key = r#"{"private_key":"hunter2","private_key_id":"1","client_email":"a"}"#;
        for (store, name, value) in [
            ("gs://b?", account, "\"hunter2\""),
            ("gs://b?", account, key),
            ("gs://b?", account, r#"{"private_key":{"hunter2":1}}"#),
            ("gs://b?", account, r#"{"type":"hunter2"}"#),
            ("az://b?account=me&", "AZURE_STORAGE_ACCOUNT_KEY", "hunter2!"),
            ("az://b?account=me&", "AZURE_STORAGE_SAS_KEY", "hunter2"),
            ("az://b?account=me&", "AZURE_STORAGE_SAS_KEY", "sv=1&sig=hunter2"),
        ] {
            let variables = [(name.to_owned(), value.to_owned())];
            let url = format!("{store}endpoint=http://127.0.0.1:1");
            let error = connect_with(&url, variables).await.unwrap_err();
            let shown = format!("{error:?} {error:#}");
            assert!(!shown.contains("hunter"), "{name}={value}: {shown}");
        }
    }
}
