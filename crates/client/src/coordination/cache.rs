//! Bytes by key in the server's memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::Milliseconds;

const EXISTS: &str = "exists";
const NOT_CACHED: &str = "not_cached";
/// Keys that are being made before those that nobody makes any more are looked for.
const MAKING_MIN: usize = 64;

/// The cache of a namespace: gone with the server's process, and the least valuable go first where
/// there is no room. Cheap to clone; clones that miss a key make it once.
#[derive(Clone, Debug)]
pub struct SharedCache {
    client: Client,
    namespace: String,
    making: Arc<Mutex<InTheMaking>>,
}

/// The keys whose values are being made, over all clones of a cache.
#[derive(Debug)]
struct InTheMaking {
    by_key: HashMap<String, Weak<Making>>,
    /// Those that nobody makes any more are dropped when there are so many.
    sweep_at: usize,
}

impl Default for InTheMaking {
    fn default() -> Self {
        Self { by_key: HashMap::new(), sweep_at: MAKING_MIN }
    }
}

/// Held by whoever makes a value.
type Making = tokio::sync::Mutex<()>;

#[derive(Serialize)]
struct CacheKeys<'a> {
    keys: &'a [&'a str],
}

impl SharedCache {
    pub(crate) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, making: Arc::default() }
    }

    /// A value, if it is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, Error> {
        match self.client.ask(&Request::new(Method::GET, self.path(key)), Repeat::Harmless).await {
            Ok(answered) => Ok(Some(answered.body)),
            Err(failed) if failed.error.code() == Some(NOT_CACHED) => Ok(None),
            Err(failed) => Err(failed.error),
        }
    }

    /// The values that are there, of up to 1,000 keys.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_many(&self, keys: &[&str]) -> Result<BTreeMap<String, Bytes>, Error> {
        #[derive(Deserialize)]
        struct Item {
            value_base64: String,
        }
        #[derive(Deserialize)]
        struct Items {
            items: BTreeMap<String, Item>,
        }
        let request = Request::document(Method::POST, self.path("get"), &CacheKeys { keys })?;
        let Items { items } = self.client.fetch(&request, Repeat::Harmless).await?;
        let decode = |(key, item): (String, Item)| match BASE64_STANDARD.decode(item.value_base64) {
            Ok(value) => Ok((key, value.into())),
            Err(_) => Err(self.client.foreign("a value is not base64")),
        };
        items.into_iter().map(decode).collect()
    }

    /// Puts a value of up to 1 MiB; without `ttl` it stays until there is no room.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn put(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<(), Error> {
        self.client.order(&putting(self.path(key), value, ttl), Repeat::Harmless).await
    }

    /// The same where none is; whether it was put.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn put_if_absent(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<bool, Error> {
        let path = self.path(key).with("if_absent", "true");
        match self.client.ask(&putting(path, value, ttl), Repeat::Harmful).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.error.code() == Some(EXISTS) => Ok(false),
            Err(failed) => Err(failed.error),
        }
    }

    /// Takes values out; how many were there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self, keys: &[&str]) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Deleted {
            deleted: u64,
        }
        let request = Request::document(Method::POST, self.path("delete"), &CacheKeys { keys })?;
        let Deleted { deleted } = self.client.fetch(&request, Repeat::Harmless).await?;
        Ok(deleted)
    }

    /// A value, or what `make` gives, which is put then. Whoever asks this cache for the same key
    /// meanwhile, also through a clone, waits for the one that makes it. Where the server cannot
    /// keep the value just now, it is given back all the same, and the next who asks makes it
    /// again.
    ///
    /// # Errors
    /// What `make` fails with, or an [`Error`] turned into it: of looking, and of putting what the
    /// server would refuse another time too.
    pub async fn get_or_make<F, E>(
        &self,
        key: &str,
        ttl: Option<Duration>,
        make: impl FnOnce() -> F,
    ) -> Result<Bytes, E>
    where
        F: Future<Output = Result<Bytes, E>>,
        E: From<Error>,
    {
        if let Some(found) = self.get(key).await? {
            return Ok(found);
        }
        let making = self.making(key);
        let _making = making.lock().await;
        // Somebody may have made it while this waited.
        if let Some(found) = self.get(key).await? {
            return Ok(found);
        }
        let made = make().await?;
        match self.put(key, made.clone(), ttl).await {
            Err(error) if !error.may_pass() => Err(error.into()),
            _ => Ok(made),
        }
    }

    fn making(&self, key: &str) -> Arc<Making> {
        let mut all = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(making) = all.by_key.get(key).and_then(Weak::upgrade) {
            return making;
        }
        // The next sweep waits until there are twice as many: its cost for each key is bounded.
        if all.by_key.len() >= all.sweep_at {
            all.by_key.retain(|_, making| making.strong_count() > 0);
            all.sweep_at = (2 * all.by_key.len()).max(MAKING_MIN);
        }
        let making = Arc::<Making>::default();
        all.by_key.insert(key.to_owned(), Arc::downgrade(&making));
        making
    }

    fn path(&self, key: &str) -> Path {
        Path::of(&["cache", &self.namespace, key])
    }
}

fn putting(path: Path, value: Bytes, ttl: Option<Duration>) -> Request {
    let path = match ttl {
        Some(ttl) => path.with("ttl", &Milliseconds(ttl).to_string()),
        None => path,
    };
    Request::new(Method::PUT, path).bytes(value)
}
