//! Looks names up, with the operating system's resolver.
//!
//! Whoever asks for a name that is being looked up waits for the same answer. So a client's first
//! notifications, or thousands of clients of one host, cost one look-up. Nothing is kept once it is
//! answered; the kept connections make look-ups rare.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

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
pub(crate) struct Resolver {
    shared: Arc<ResolverState>,
}

struct ResolverState {
    lookup: Box<Lookup>,
    threads: Arc<Semaphore>,
    asked: Mutex<HashMap<String, watch::Receiver<Answer>>>,
}

impl Resolver {
    /// The operating system's resolver.
    pub(crate) fn system() -> Self {
        // Any port will do; only the addresses are wanted.
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }

    fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        let threads = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self {
            shared: Arc::new(ResolverState { lookup: Box::new(lookup), threads, asked: Mutex::default() }),
        }
    }

    /// The addresses of `name`, at least one.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Arc<[IpAddr]>, Unresolved> {
        let mut answer = self.ask(name);
        let answer = answer.wait_for(Option::is_some).await.map_err(|_| Unresolved)?;
        answer.clone().expect("waited for")
    }

    /// Joins the look-up of `name` that is under way, or begins one.
    fn ask(&self, name: &str) -> watch::Receiver<Answer> {
        let mut asked = locked(&self.shared.asked);
        if let Some(answer) = asked.get(name) {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        asked.insert(name.to_owned(), answer.clone());
        let under_way = OngoingLookup { shared: Arc::clone(&self.shared), name: name.to_owned(), tell };
        tokio::spawn(under_way.begin());
        answer
    }
}

/// A look-up. However it ends, the name can be asked for again, and those who wait are told.
struct OngoingLookup {
    shared: Arc<ResolverState>,
    name: String,
    tell: watch::Sender<Answer>,
}

impl OngoingLookup {
    /// Waits for its turn. The thread is none of the runtime's, which could not end before the name
    /// server has answered.
    async fn begin(self) {
        let permit = Arc::clone(&self.shared.threads).acquire_owned().await.expect("never closed");
        let name = self.name.clone();
        let begun = std::thread::Builder::new().name("lookup".to_owned()).spawn(|| self.run(permit));
        if let Err(error) = begun {
            tracing::warn!(name, %error, "no thread for the look-up of a name");
        }
    }

    fn run(self, permit: OwnedSemaphorePermit) {
        let found = (self.shared.lookup)(&self.name);
        drop(permit);
        match found {
            Ok(addresses) if !addresses.is_empty() => self.answer(Ok(Arc::from(addresses))),
            Ok(_) => {}
            Err(error) => tracing::debug!(self.name, %error, "name not resolved"),
        }
    }

    fn answer(&self, found: Result<Arc<[IpAddr]>, Unresolved>) {
        locked(&self.shared.asked).remove(&self.name);
        self.tell.send_replace(Some(found));
    }
}

impl Drop for OngoingLookup {
    fn drop(&mut self) {
        if self.tell.borrow().is_none() {
            self.answer(Err(Unresolved));
        }
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
            assert!(locked(&resolver.shared.asked).is_empty());
        }
    }

    #[tokio::test]
    async fn a_lookup_that_panics_answers_and_can_be_asked_again() {
        let resolver = Resolver::new(|_| panic!("meant"));
        for _ in 0..2 {
            assert_eq!(resolver.resolve("a.example").await, Err(Unresolved));
        }
        assert_eq!(resolver.shared.threads.available_permits(), LOOKUPS_MAX);
    }

    #[tokio::test]
    async fn names_that_are_not_answered_hold_no_more_threads_than_allowed() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let resolver = Resolver::new(move |name| {
            begun.send(name.to_owned()).expect("the test listens");
            // Until the test is over.
            let _ = wait.lock().unwrap().recv();
            Ok(Vec::new())
        });
        let asked: Vec<_> = (0..=LOOKUPS_MAX).map(|n| resolver.ask(&format!("{n}.example"))).collect();
        for _ in 0..LOOKUPS_MAX {
            begins.recv().await.expect("begun");
        }
        assert_eq!(resolver.shared.threads.available_permits(), 0);
        assert!(begins.try_recv().is_err());
        drop(go);
        for mut answer in asked {
            assert_eq!(*answer.wait_for(Option::is_some).await.expect("told"), Some(Err(Unresolved)));
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
