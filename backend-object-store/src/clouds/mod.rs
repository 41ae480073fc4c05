//! The stores of the clouds, and all servers that speak their protocols.

mod http;
mod url;

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, ConnectionSecurity, Error, ErrorKind, is_loopback, plaintext_refusal};
use object_store::{
    ClientOptions, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};

use self::{
    http::Connector,
    url::{Cloud, Place, parse},
};
use crate::{
    Objects,
    cas::{CasBackend, CasOptions},
};

/// Opens the store that a URL describes:
///
/// - `s3://BUCKET/PREFIX?region=…&endpoint=…`, with the credentials of the environment
///   (`AWS_ACCESS_KEY_ID`, …), a web identity, a container or an instance;
/// - `gs://BUCKET/PREFIX`, with a service account (`GOOGLE_SERVICE_ACCOUNT`), the application
///   default credentials, or those of an instance;
/// - `az://CONTAINER/PREFIX?account=…&endpoint=…`, with the credentials of the environment
///   (`AZURE_STORAGE_ACCOUNT_KEY`, …), a workload identity or a managed one.
///
/// Common options: `timeout=5s`, and `plaintext=on` for an endpoint with `http://` on another
/// machine. A URL has no credentials.
///
/// # Errors
/// `InvalidInput` for a URL of another form; `Config` if a value of the environment cannot be used,
/// and as [`CasBackend::open`]. No message shows a credential.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let at = |error: Error| error.at("object-store", "connect");
    let place = parse(url).map_err(at)?;
    let (store, connection) = open(&place).map_err(at)?;
    let mut options = CasOptions::new("object-store");
    options.shortest_lease = shortest_lease(place.cloud);
    options.timeout = place.timeout;
    options.connection = connection;
    let objects = Objects::new(store, &place.prefix).map_err(at)?.without_caches();
    Ok(Arc::new(CasBackend::open(Arc::new(objects), options).await?))
}

/// A lease is renewed each third of its time, and Google's store takes one write a second of an
/// object.
fn shortest_lease(cloud: Cloud) -> Duration {
    Duration::from_secs(if cloud == Cloud::Google { 5 } else { 2 })
}

fn open(place: &Place) -> Result<(Arc<dyn ObjectStore>, ConnectionSecurity), Error> {
    // A write that is repeated on the way may be answered with a refusal of the repeat. The steps
    // repeat themselves.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let connector = Connector { timeout: place.timeout };
    let failed = |error: object_store::Error| {
        let message = "the store cannot be used with these settings";
        Error::new(ErrorKind::Config, message).with_source(error)
    };
    let mut endpoint = place.endpoint.clone();
    let store: Arc<dyn ObjectStore> = match place.cloud {
        Cloud::Amazon => {
            let mut builder = AmazonS3Builder::from_env()
                .with_bucket_name(&place.bucket)
                .with_conditional_put(S3ConditionalPut::ETagMatch)
                .with_retry(retry)
                .with_http_connector(connector);
            if let Some(region) = &place.region {
                builder = builder.with_region(region);
            }
            endpoint = endpoint.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
            if let Some(endpoint) = &endpoint {
                builder = builder.with_endpoint(endpoint).with_allow_http(allows_http(endpoint));
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        Cloud::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&place.bucket)
                .with_retry(retry)
                .with_http_connector(connector);
            if let Some(endpoint) = &endpoint {
                let options = ClientOptions::new().with_allow_http(allows_http(endpoint));
                builder = builder.with_base_url(endpoint).with_client_options(options);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        Cloud::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env()
                .with_container_name(&place.bucket)
                .with_retry(retry)
                .with_http_connector(connector);
            if let Some(account) = &place.account {
                builder = builder.with_account(account);
            }
            if let Some(endpoint) = &endpoint {
                let allows = allows_http(endpoint);
                builder = builder.with_endpoint(endpoint.clone()).with_allow_http(allows);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
    };
    Ok((store, security(endpoint.as_deref(), place.plaintext)?))
}

fn allows_http(endpoint: &str) -> bool {
    endpoint.starts_with("http://")
}

/// Refuses to send requests, which may carry a token, unencrypted to another machine.
fn security(endpoint: Option<&str>, plaintext: bool) -> Result<ConnectionSecurity, Error> {
    let Some(host) = endpoint.and_then(|endpoint| endpoint.strip_prefix("http://")) else {
        return Ok(ConnectionSecurity::Verified);
    };
    let host = host.split('/').next().unwrap_or(host);
    let host =
        if host.ends_with(']') { host } else { host.rsplit_once(':').map_or(host, |it| it.0) };
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
        ] {
            assert_eq!(security(endpoint, plaintext).ok(), expected, "{endpoint:?}");
        }
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
}
