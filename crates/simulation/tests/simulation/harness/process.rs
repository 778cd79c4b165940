//! One life of the server: its number, its clock, its store, and what its partitions share.

use std::sync::Arc;

use base::Clock;
use engine::context::EngineContext;
use engine::kernel::context::KernelContext;
use engine::{EngineSettings, Store};

use super::port::Outcomes;
use super::store_spy::StoreSpy;

/// A process that is up, or starts.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) number: records::Process,
    pub(super) spy: Arc<StoreSpy>,
    pub(super) outcomes: Outcomes,
    clock: Arc<dyn Clock>,
    pub(super) kernel: Arc<KernelContext>,
}

impl Process {
    pub(super) fn new(number: u64, spy: Arc<StoreSpy>, clock: Arc<dyn Clock>) -> Self {
        let store = Arc::clone(&spy) as Arc<dyn Store>;
        Self {
            number: records::Process(number),
            kernel: Arc::new(KernelContext::new(store, Arc::clone(&clock))),
            spy,
            outcomes: Outcomes::default(),
            clock,
        }
    }

    /// What the partitions of a workload reach: the kernel is that of the process, all else is
    /// theirs.
    pub(crate) fn context(&self, settings: &EngineSettings) -> EngineContext {
        let store = Arc::clone(&self.spy) as Arc<dyn Store>;
        let mut context = EngineContext::new(store, Arc::clone(&self.clock), settings);
        context.kernel = Arc::clone(&self.kernel);
        context
    }
}
