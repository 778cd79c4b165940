//! The conformance suite on the simulated and on a real disk.

use std::sync::Arc;

use blocklog::{Disk, RealDisk, SimulatedDisk};

use super::*;
use crate::conformance::Subject;

/// A store whose steps are called by hand.
struct Stepped {
    disk: Arc<dyn Disk>,
    store: Option<EmbeddedStore>,
    /// Keeps a real directory until the end.
    _directory: Option<tempfile::TempDir>,
}

impl Stepped {
    fn on(disk: Arc<dyn Disk>, directory: Option<tempfile::TempDir>) -> Self {
        let store = EmbeddedStore::open(Arc::clone(&disk), small()).expect("opens");
        Self { disk, store: Some(store), _directory: directory }
    }

    fn simulated() -> Self {
        Self::on(Arc::new(SimulatedDisk::new(1)), None)
    }

    fn real() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = RealDisk::open_dir(directory.path(), false).expect("opens");
        Self::on(Arc::new(disk), Some(directory))
    }

    fn embedded(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("open")
    }
}

impl Subject for Stepped {
    fn store(&self) -> &dyn Store {
        self.embedded()
    }

    fn settle(&mut self) {
        settle(self.embedded());
    }

    fn churn(&mut self, turn: u64) {
        for _ in 0..turn {
            // later than any age
            self.embedded().checkpoint_step(Timestamp::MAX);
        }
        self.embedded().idle_step();
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(EmbeddedStore::open(Arc::clone(&self.disk), small()).expect("opens again"));
    }
}

mod on_the_simulated_disk {
    use super::*;
    crate::conformance_tests!(Stepped::simulated());
}

mod on_a_real_disk {
    use super::*;
    crate::conformance_tests!(Stepped::real());
}
