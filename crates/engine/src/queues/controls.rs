//! What the workers of queues are to do, as it is durable: who waits for jobs is told of changes.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use base::limits::CONTROL_DATA_BYTES_MAX;
use base::locks::{read_locked, write_locked};
use base::{PartitionId, Problem};
use records::WorkerControl;
use tokio::sync::watch;

use super::{QueueCall, QueueCalls, QueueInput, QueueName};

/// The controls of all queues.
#[derive(Debug)]
pub(crate) struct ControlBoard {
    controls: RwLock<HashMap<QueueName, (PartitionId, Arc<WorkerControl>)>>,
    changed: watch::Sender<u64>,
}

impl Default for ControlBoard {
    fn default() -> Self {
        Self { controls: RwLock::default(), changed: watch::Sender::new(0) }
    }
}

impl ControlBoard {
    /// A partition was loaded: it has these and no others.
    pub(crate) fn loaded(&self, partition: PartitionId, controls: Vec<WorkerControl>) {
        let mut all = write_locked(&self.controls);
        all.retain(|_, (of, _)| *of != partition);
        for control in controls {
            let queue = QueueName::unchecked(&control.namespace, &control.queue);
            all.insert(queue, (partition, Arc::new(control)));
        }
        drop(all);
        self.tell();
    }

    /// The control of a queue is this now, durably.
    pub(crate) fn put(&self, partition: PartitionId, queue: QueueName, control: Option<WorkerControl>) {
        let mut all = write_locked(&self.controls);
        match control {
            Some(control) => drop(all.insert(queue, (partition, Arc::new(control)))),
            None => drop(all.remove(&queue)),
        }
        drop(all);
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version = version.wrapping_add(1));
    }

    fn get(&self, queue: &QueueName) -> Option<Arc<WorkerControl>> {
        let all = read_locked(&self.controls);
        all.get(queue).map(|(_, control)| Arc::clone(control))
    }
}

/// The control of a queue, and its changes from then on.
#[derive(Debug)]
pub struct FollowedControl {
    queues: QueueCalls,
    queue: QueueName,
    versions: watch::Receiver<u64>,
    current: Option<Arc<WorkerControl>>,
}

impl FollowedControl {
    /// The control as it was told last.
    #[must_use]
    pub fn current(&self) -> Option<&WorkerControl> {
        self.current.as_deref()
    }

    /// Returns when the control is another.
    pub async fn changed(&mut self) {
        loop {
            if self.versions.changed().await.is_err() {
                // The board is gone with the server: nothing changes any more.
                std::future::pending::<()>().await;
            }
            let now = self.queues.control(&self.queue);
            if now != self.current {
                self.current = now;
                return;
            }
        }
    }
}

impl QueueCalls {
    /// What the workers of a queue are to do, if that was said.
    #[must_use]
    pub fn control(&self, queue: &QueueName) -> Option<Arc<WorkerControl>> {
        self.engine().context().queues.controls.get(queue)
    }

    /// The same, with its changes.
    #[must_use]
    pub fn follow_control(&self, queue: &QueueName) -> FollowedControl {
        // Before the control is looked at: a change behind the look is told.
        let versions = self.engine().context().queues.controls.changed.subscribe();
        let current = self.control(queue);
        FollowedControl { queues: self.clone(), queue: queue.clone(), versions, current }
    }

    /// Says what the workers of a queue are to do; all of it, or nothing any more.
    ///
    /// # Errors
    /// 422 for what is out of range, 429 `too_many_controls`.
    pub async fn put_control(
        &self,
        queue: &QueueName,
        control: Option<WorkerControl>,
    ) -> Result<(), Problem> {
        let data = control.as_ref().and_then(|control| control.data.as_ref());
        if data.is_some_and(|data| data.len() > CONTROL_DATA_BYTES_MAX) {
            let detail = format!("data must be at most {CONTROL_DATA_BYTES_MAX} bytes");
            return Err(Problem::not_allowed("too_long", detail));
        }
        let control = control.map(Box::new);
        let put = |reply| QueueInput::Queue(QueueCall::Control(queue.clone(), control, reply));
        self.partition(queue).ask(put).await?
    }
}
