//! Looks names up, with the operating system's resolver.
//!
//! Whoever asks for a name that is being looked up waits for the same answer: a client's first notifications, or thousands of
//! clients of one host, cost one look-up. Nothing is kept once it is answered; the kept connections make look-ups rare.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};

/// Most look-ups at a time; each holds a thread, for as long as a name server does not answer.
const LOOKUPS_MAX: usize = 32;

/// Finds the addresses of a name; blocks.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;
/// `None` until it is there.
type Answer = Option<Result<Arc<[IpAddr]>, Unresolved>>;

/// A name without an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved;

/// The look-ups under way.
#[derive(Clone)]
pub(crate) struct Resolver {
    shared: Arc<Shared>,
}

struct Shared {
    lookup: Box<Lookup>,
    threads: Arc<Semaphore>,
    asked: Mutex<HashMap<String, watch::Receiver<Answer>>>,
}

impl Resolver {
    /// The operating system's resolver.
    pub(crate) fn system() -> Self {
        // Any port will do; getaddrinfo answers with addresses.
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }

    fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        let threads = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { shared: Arc::new(Shared { lookup: Box::new(lookup), threads, asked: Mutex::default() }) }
    }

    /// The addresses of `name`, at least one.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Arc<[IpAddr]>, Unresolved> {
        let mut answer = self.ask(name);
        let answer = answer.wait_for(Option::is_some).await.map_err(|_| Unresolved)?;
        answer.clone().expect("waited for")
    }

    /// Joins the look-up of `name` that is under way, or begins one.
    fn ask(&self, name: &str) -> watch::Receiver<Answer> {
        let mut asked = self.shared.asked();
        if let Some(answer) = asked.get(name) {
            return answer.clone();
        }
        let (sender, answer) = watch::channel(None);
        asked.insert(name.to_owned(), answer.clone());
        tokio::spawn(Arc::clone(&self.shared).look_up(name.to_owned(), sender));
        answer
    }
}

impl Shared {
    /// Runs to its end even if nobody waits any more: its thread cannot be called back.
    async fn look_up(self: Arc<Self>, name: String, answer: watch::Sender<Answer>) {
        let permit = Arc::clone(&self.threads).acquire_owned().await.expect("never closed");
        let (shared, asked) = (Arc::clone(&self), name.clone());
        let found = tokio::task::spawn_blocking(move || {
            let found = (shared.lookup)(&asked);
            drop(permit);
            found
        });
        let found = match found.await {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(Arc::from(addresses)),
            Ok(Ok(_)) => Err(Unresolved),
            Ok(Err(error)) => {
                tracing::debug!(name, %error, "name not resolved");
                Err(Unresolved)
            }
            Err(error) => {
                tracing::error!(name, %error, "the look-up of a name panicked");
                Err(Unresolved)
            }
        };
        self.asked().remove(&name);
        answer.send_replace(Some(found));
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Answer>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn those_who_ask_together_share_one_lookup() {
        let lookups = Arc::new(AtomicUsize::new(0));
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let counted = Arc::clone(&lookups);
        let resolver = Resolver::new(move |name| {
            wait.lock().unwrap().recv().expect("told to go on");
            counted.fetch_add(1, Ordering::SeqCst);
            if name == "there.example" { Ok(vec![[192, 0, 2, 1].into()]) } else { Ok(Vec::new()) }
        });
        for (name, lookups_so_far) in [("there.example", 1), ("not.example", 2), ("there.example", 3)] {
            let asking: Vec<_> = (0..10).map(|_| resolver.ask(name)).collect();
            go.send(()).unwrap();
            for mut answer in asking {
                let found = answer.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                assert_eq!(found.is_ok(), name == "there.example");
            }
            assert_eq!(lookups.load(Ordering::SeqCst), lookups_so_far, "{name}");
            assert!(resolver.shared.asked().is_empty());
        }
    }

    #[tokio::test]
    async fn the_system_knows_localhost_and_no_invalid_name() {
        let resolver = Resolver::system();
        let found = resolver.resolve("localhost").await.expect("localhost");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert_eq!(resolver.resolve("nowhere.invalid").await, Err(Unresolved));
    }
}
