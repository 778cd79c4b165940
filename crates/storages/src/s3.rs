//! A bucket of an S3 server, or a part of one. A block is one object.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, Error as ObjectError, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig,
};
use store::BlockStorage;
use url::Url;

use crate::over_network::{OverNetwork, READ_MAX, WRITE_MAX};
use crate::s3_http::S3Connector;

/// Tries of one request beyond the first.
const RETRIES_MAX: usize = 3;
/// No try begins later.
const RETRIED_FOR: Duration = Duration::from_secs(15);

/// A bucket, as an operator sets it.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// `s3://bucket/prefix`
    pub url: String,
    /// The server, such as `https://s3.example.com`; Amazon's of the region without one. With
    /// `http://` it is asked without TLS.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The id of the key.
    pub access_key: Option<String>,
    /// The secret of the key.
    pub secret_key: Option<String>,
}

impl fmt::Debug for S3Settings {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("url", &self.url)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl S3Settings {
    /// The bucket, and the prefix within it.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn bucket(&self) -> Result<(String, String), String> {
        let wrong = || "url must be s3://BUCKET or s3://BUCKET/PREFIX".to_owned();
        let url = Url::parse(&self.url).map_err(|_| wrong())?;
        let bucket =
            url.host_str().filter(|_| url.scheme() == "s3" && url.query().is_none()).ok_or_else(wrong)?;
        Ok((bucket.to_owned(), url.path().trim_matches('/').to_owned()))
    }

    /// Checks that each setting makes sense.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.bucket()?;
        if let Some(endpoint) = &self.endpoint {
            let is_web = Url::parse(endpoint)
                .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
            if !is_web {
                return Err("endpoint must be a URL such as https://s3.example.com".to_owned());
            }
        }
        match (&self.access_key, &self.secret_key) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err("access_key and secret_key_file are both needed".to_owned()),
        }
    }
}

/// Blocks in a bucket.
#[derive(Debug)]
pub struct S3Storage {
    bucket: Arc<AmazonS3>,
    prefix: String,
    network: OverNetwork,
}

impl S3Storage {
    /// The storage in a bucket. Nothing is asked yet.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn open(settings: &S3Settings) -> Result<Self, String> {
        settings.check()?;
        let (bucket, prefix) = settings.bucket()?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_http_connector(S3Connector::new()?)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(2),
                    base: 2.0,
                },
                max_retries: RETRIES_MAX,
                retry_timeout: RETRIED_FOR,
            })
            .with_region(settings.region.as_deref().unwrap_or("us-east-1"));
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        if let (Some(key), Some(secret)) = (&settings.access_key, &settings.secret_key) {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        }
        let bucket = builder.build().map_err(|error| error.to_string())?;
        let network = OverNetwork::new("storage-s3").map_err(|error| error.to_string())?;
        Ok(Self { bucket: Arc::new(bucket), prefix, network })
    }

    fn object(&self, name: &str) -> ObjectPath {
        match self.prefix.is_empty() {
            true => ObjectPath::from(name),
            false => ObjectPath::from(format!("{}/{name}", self.prefix)),
        }
    }
}

fn io_error(error: &ObjectError) -> io::Error {
    let kind = match error {
        ObjectError::NotFound { .. } => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, one_line(&error.to_string()))
}

/// Answers of servers may have many lines.
fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(CHARS_MAX).collect()
}

impl BlockStorage for S3Storage {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (bucket, object, bytes) = (Arc::clone(&self.bucket), self.object(name), bytes.to_vec());
        self.network.call(WRITE_MAX, async move {
            bucket.put(&object, bytes.into()).await.map_err(|error| io_error(&error)).map(drop)
        })
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the object ends before");
        let end = offset.checked_add(len as u64).ok_or_else(short)?;
        let (bucket, object) = (Arc::clone(&self.bucket), self.object(name));
        self.network.call(READ_MAX, async move {
            // An empty range is none: the server is asked for the length alone.
            let meta = match len {
                0 => bucket.head(&object).await.map_err(|error| io_error(&error))?,
                _ => {
                    let options =
                        GetOptions { range: Some(GetRange::Bounded(offset..end)), ..GetOptions::default() };
                    let found = match bucket.get_opts(&object, options).await {
                        Ok(found) => found,
                        Err(error @ ObjectError::NotFound { .. }) => return Err(io_error(&error)),
                        Err(error) => {
                            // A range behind the end is refused; so it is asked where that is.
                            let meta = bucket.head(&object).await.map_err(|_| io_error(&error))?;
                            return Err(if meta.size < end { short() } else { io_error(&error) });
                        }
                    };
                    let bytes = found.bytes().await.map_err(|error| io_error(&error))?;
                    return if bytes.len() == len { Ok(bytes.to_vec()) } else { Err(short()) };
                }
            };
            if meta.size < end { Err(short()) } else { Ok(Vec::new()) }
        })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let (bucket, object) = (Arc::clone(&self.bucket), self.object(name));
        self.network.call(READ_MAX, async move {
            match bucket.delete(&object).await {
                Ok(()) | Err(ObjectError::NotFound { .. }) => Ok(()),
                Err(error) => Err(io_error(&error)),
            }
        })
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        const NAMES_PER_CALL: usize = 10_000;
        let prefix = self.object(folder);
        let mut after: Option<ObjectPath> = None;
        loop {
            let (bucket, prefix, from) = (Arc::clone(&self.bucket), prefix.clone(), after.take());
            let names: Vec<ObjectPath> = self.network.call(READ_MAX, async move {
                let listed = match &from {
                    Some(from) => bucket.list_with_offset(Some(&prefix), from),
                    None => bucket.list(Some(&prefix)),
                };
                let mut names = Vec::new();
                let mut listed = listed.take(NAMES_PER_CALL);
                while let Some(object) = listed.next().await {
                    names.push(object.map_err(|error| io_error(&error))?.location);
                }
                Ok(names)
            })?;
            let is_all = names.len() < NAMES_PER_CALL;
            after = names.last().cloned();
            for object in names {
                if let Some(name) = object.filename() {
                    each(format!("{folder}/{name}"));
                }
            }
            if is_all {
                return Ok(());
            }
        }
    }

    fn probe(&self) -> io::Result<()> {
        let (bucket, prefix) = (Arc::clone(&self.bucket), self.object("probe"));
        self.network.call(READ_MAX, async move {
            match bucket.list(Some(&prefix)).next().await {
                None | Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(io_error(&error)),
            }
        })
    }
}
