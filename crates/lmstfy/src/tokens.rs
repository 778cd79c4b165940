//! The tokens of namespaces and their limits: few, in memory, and kept whole by whoever made this
//! before a change counts.
//!
//! A token is kept as it is and not as a hash, because the admin API lists tokens. Programs and
//! scripts that set up namespaces read them there.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use base::locks::{locked, read_locked, write_locked};
use serde::{Deserialize, Serialize};

use crate::limit::{Limit, Throttle};

/// Most tokens, and most limits: as many are held in memory and written at every change.
const TOKENS_MAX: usize = 100_000;

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTokens {
    /// In order of namespace and token.
    pub tokens: Vec<StoredToken>,
    /// In order of namespace and token. There may be a limit without its token: the real server has
    /// them too.
    pub limits: Vec<StoredLimit>,
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// What it is for.
    pub namespace: String,
    /// The token.
    pub token: String,
    /// What somebody wrote beside it.
    pub description: String,
}

/// The limit of one token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLimit {
    /// The token's namespace.
    pub namespace: String,
    /// The token.
    pub token: String,
    /// The limit.
    pub limiter: Limit,
}

/// There are more tokens or limits than fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTokens;

impl std::fmt::Display for TooManyTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there are more than {TOKENS_MAX} tokens or limits, the most that are kept")
    }
}

impl std::error::Error for TooManyTokens {}

/// Makes what it is given durable, in place of what was there before.
pub type Keep = dyn Fn(&StoredTokens) -> io::Result<()> + Send + Sync;

/// The tokens and their limits. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<TokensInner>);

struct TokensInner {
    now: RwLock<Arc<TokenTable>>,
    /// Held while a change is made durable.
    changing: Mutex<()>,
    keep: Box<Keep>,
}

/// The tokens at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenTable {
    tokens: HashMap<String, BTreeMap<String, String>>,
    limits: HashMap<String, BTreeMap<String, Arc<Throttle>>>,
}

/// Why there is no change.
#[derive(Debug)]
pub(crate) enum Unchanged {
    /// It is there already.
    Exists,
    TooMany(TooManyTokens),
    /// It could not be made durable.
    NotKept(io::Error),
}

impl Tokens {
    /// Those that were kept; changes are kept by `keep`, which may block.
    ///
    /// # Errors
    /// When they are too many.
    pub fn new(
        kept: StoredTokens,
        keep: impl Fn(&StoredTokens) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, TooManyTokens> {
        let mut table = TokenTable::default();
        for StoredToken { namespace, token, description } in kept.tokens {
            table.tokens.entry(namespace).or_default().insert(token, description);
        }
        for StoredLimit { namespace, token, limiter } in kept.limits {
            table.set_limit(&namespace, &token, limiter);
        }
        table.check_size()?;
        let now = RwLock::new(Arc::new(table));
        Ok(Self(Arc::new(TokensInner { now, changing: Mutex::new(()), keep: Box::new(keep) })))
    }

    /// The tokens as they are now.
    pub(crate) fn now(&self) -> Arc<TokenTable> {
        Arc::clone(&read_locked(&self.0.now))
    }

    /// Makes a change, on a thread of its own, because it blocks; what has begun is done even if
    /// nobody waits for it.
    ///
    /// # Errors
    /// Whatever `change` says, and when it cannot be made durable; then nothing has changed.
    pub(crate) async fn change(
        &self,
        change: impl FnOnce(&mut TokenTable) -> Result<(), Unchanged> + Send + 'static,
    ) -> Result<(), Unchanged> {
        let inner = Arc::clone(&self.0);
        let changing = tokio::task::spawn_blocking(move || inner.change(change));
        match changing.await {
            Ok(changed) => changed,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(stopping) => Err(Unchanged::NotKept(io::Error::other(stopping))),
        }
    }
}

impl TokensInner {
    fn change(&self, change: impl FnOnce(&mut TokenTable) -> Result<(), Unchanged>) -> Result<(), Unchanged> {
        let _alone = locked(&self.changing);
        let mut table = TokenTable::clone(&read_locked(&self.now));
        change(&mut table)?;
        table.check_size().map_err(Unchanged::TooMany)?;
        (self.keep)(&table.kept()).map_err(Unchanged::NotKept)?;
        *write_locked(&self.now) = Arc::new(table);
        Ok(())
    }
}

base::debug_as_name!(Tokens);

impl TokenTable {
    pub(crate) fn knows(&self, namespace: &str, token: &str) -> bool {
        self.tokens.get(namespace).is_some_and(|tokens| tokens.contains_key(token))
    }

    /// A namespace's tokens with what somebody wrote beside them.
    pub(crate) fn of(&self, namespace: &str) -> impl Iterator<Item = (&str, &str)> {
        self.tokens.get(namespace).into_iter().flatten().map(|(token, text)| (token.as_str(), text.as_str()))
    }

    pub(crate) fn add(&mut self, namespace: &str, token: &str, description: &str) -> Result<(), Unchanged> {
        if self.knows(namespace, token) {
            return Err(Unchanged::Exists);
        }
        let tokens = self.tokens.entry(namespace.to_owned()).or_default();
        tokens.insert(token.to_owned(), description.to_owned());
        Ok(())
    }

    /// Its limit goes with it.
    pub(crate) fn remove(&mut self, namespace: &str, token: &str) {
        remove(&mut self.tokens, namespace, token);
        self.remove_limit(namespace, token);
    }

    pub(crate) fn throttle(&self, namespace: &str, token: &str) -> Option<&Arc<Throttle>> {
        self.limits.get(namespace)?.get(token)
    }

    pub(crate) fn add_limit(&mut self, namespace: &str, token: &str, limit: Limit) -> Result<(), Unchanged> {
        if self.throttle(namespace, token).is_some() {
            return Err(Unchanged::Exists);
        }
        self.set_limit(namespace, token, limit);
        Ok(())
    }

    pub(crate) fn set_limit(&mut self, namespace: &str, token: &str, limit: Limit) {
        let limits = self.limits.entry(namespace.to_owned()).or_default();
        limits.insert(token.to_owned(), Arc::new(Throttle::new(limit)));
    }

    pub(crate) fn remove_limit(&mut self, namespace: &str, token: &str) {
        remove(&mut self.limits, namespace, token);
    }

    /// All limits, in order of namespace and token.
    pub(crate) fn limits(&self) -> Vec<StoredLimit> {
        let mut limits: Vec<_> = self
            .limits
            .iter()
            .flat_map(|(namespace, limits)| {
                limits.iter().map(move |(token, throttle)| (namespace, token, throttle))
            })
            .map(|(namespace, token, throttle)| StoredLimit {
                namespace: namespace.clone(),
                token: token.clone(),
                limiter: throttle.limit,
            })
            .collect();
        limits.sort_by(|a, b| (&a.namespace, &a.token).cmp(&(&b.namespace, &b.token)));
        limits
    }

    fn kept(&self) -> StoredTokens {
        let all = self.tokens.iter().flat_map(|(namespace, tokens)| {
            tokens.iter().map(move |(token, description)| StoredToken {
                namespace: namespace.clone(),
                token: token.clone(),
                description: description.clone(),
            })
        });
        let mut tokens: Vec<_> = all.collect();
        tokens.sort_by(|a, b| (&a.namespace, &a.token).cmp(&(&b.namespace, &b.token)));
        StoredTokens { tokens, limits: self.limits() }
    }

    fn check_size(&self) -> Result<(), TooManyTokens> {
        let tokens: usize = self.tokens.values().map(BTreeMap::len).sum();
        let limits: usize = self.limits.values().map(BTreeMap::len).sum();
        if tokens.max(limits) > TOKENS_MAX { Err(TooManyTokens) } else { Ok(()) }
    }
}

fn remove<T>(all: &mut HashMap<String, BTreeMap<String, T>>, namespace: &str, token: &str) {
    if let Some(tokens) = all.get_mut(namespace) {
        tokens.remove(token);
        if tokens.is_empty() {
            all.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { read: 1, write: 2, interval: 3 };

    /// Tokens, and what was last kept of them.
    fn tokens(kept: StoredTokens) -> (Tokens, Arc<Mutex<StoredTokens>>) {
        let last = Arc::new(Mutex::new(kept.clone()));
        let keep = Arc::clone(&last);
        let tokens = Tokens::new(kept, move |kept| {
            *keep.lock().expect("no panic") = kept.clone();
            Ok(())
        });
        (tokens.expect("not too many"), last)
    }

    #[tokio::test]
    async fn what_is_kept_comes_back() {
        let (first, last) = tokens(StoredTokens::default());
        first.change(|table| table.add("n", "token", "text")).await.expect("kept");
        first.change(|table| table.add("a", "token", "")).await.expect("kept");
        first.change(|table| table.add_limit("n", "token", LIMIT)).await.expect("kept");
        let kept = last.lock().expect("no panic").clone();
        assert_eq!((kept.tokens.len(), kept.tokens[0].namespace.as_str(), kept.limits.len()), (2, "a", 1));
        let (second, _) = tokens(kept);
        let table = second.now();
        assert_eq!(table.of("n").collect::<Vec<_>>(), [("token", "text")]);
        assert_eq!(table.throttle("n", "token").map(|throttle| throttle.limit), Some(LIMIT));
        assert!(!table.knows("n", "other") && !table.knows("b", "token"));
    }

    #[tokio::test]
    async fn a_token_takes_its_limit_along_and_leaves_nothing() {
        let (tokens, last) = tokens(StoredTokens::default());
        tokens.change(|table| table.add("n", "token", "")).await.expect("kept");
        tokens.change(|table| table.add_limit("n", "token", LIMIT)).await.expect("kept");
        for change in
            [TokenTable::add_limit as fn(&mut TokenTable, &str, &str, Limit) -> _, |table, n, t, _| {
                table.add(n, t, "")
            }]
        {
            let again = tokens.change(move |table| change(table, "n", "token", LIMIT)).await;
            assert!(matches!(again, Err(Unchanged::Exists)), "{again:?}");
        }
        let gone = |table: &mut TokenTable| {
            table.remove("n", "token");
            Ok(())
        };
        tokens.change(gone).await.expect("kept");
        assert_eq!(*last.lock().expect("no panic"), StoredTokens::default());
        assert!(tokens.now().tokens.is_empty() && tokens.now().limits.is_empty());
    }

    #[tokio::test]
    async fn what_cannot_be_kept_has_not_changed() {
        let tokens = Tokens::new(StoredTokens::default(), |_| Err(io::Error::other("full")));
        let tokens = tokens.expect("not too many");
        let change = tokens.change(|table| table.add("n", "token", "")).await;
        assert!(matches!(change, Err(Unchanged::NotKept(_))), "{change:?}");
        assert!(!tokens.now().knows("n", "token"));
    }
}
