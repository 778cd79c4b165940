//! A task for each of some things that are there, as each is since its latest change.

use std::collections::{HashMap, HashSet};
use std::future::{Future, pending};
use std::hash::Hash;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinSet};

/// After how long a task that panicked is begun anew.
const BEGUN_ANEW_AFTER: Duration = Duration::from_secs(10);

/// The tasks. Those that run are ended with it.
#[derive(Debug)]
pub struct TargetTasks<T> {
    tasks: JoinSet<()>,
    running: HashMap<T, AbortHandle>,
    panicked: HashSet<T>,
}

impl<T> Default for TargetTasks<T> {
    fn default() -> Self {
        Self { tasks: JoinSet::new(), running: HashMap::new(), panicked: HashSet::new() }
    }
}

impl<T: Clone + Eq + Hash> TargetTasks<T> {
    /// Ends the tasks of what is not wanted any more, and starts those of what is new.
    pub fn follow<F>(&mut self, wanted: Vec<T>, start: impl Fn(T) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let wanted: HashSet<T> = wanted.into_iter().collect();
        self.running.retain(|target, task| {
            let stays = wanted.contains(target);
            if !stays {
                task.abort();
            }
            stays
        });
        self.panicked.retain(|target| wanted.contains(target));
        for target in wanted {
            if self.running.contains_key(&target) {
                continue;
            }
            let pause = if self.panicked.remove(&target) { BEGUN_ANEW_AFTER } else { Duration::ZERO };
            let task = start(target.clone());
            let task = async move {
                tokio::time::sleep(pause).await;
                task.await;
            };
            self.running.insert(target, self.tasks.spawn(task));
        }
    }

    /// Waits until a task panics. It is begun anew, after a pause, by the next
    /// [`Self::follow`].
    pub async fn panicked(&mut self) -> JoinError {
        loop {
            match self.tasks.join_next_with_id().await {
                // One that ended has nothing to do any more, or was told to.
                Some(Ok(_)) => {}
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => {
                    let failed = self.running.extract_if(|_, task| task.id() == error.id());
                    self.panicked.extend(failed.map(|(target, _)| target));
                    return error;
                }
                None => pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_wanted_runs_once_and_begins_anew_after_a_panic() {
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut tasks = TargetTasks::default();
        let run = |target: u32| {
            let tell = tell.clone();
            async move {
                let _ = tell.send(target);
                assert!(target != 3, "a panic");
                pending::<()>().await;
            }
        };
        tasks.follow(vec![1, 2], run);
        tasks.follow(vec![2, 1], run);
        let mut began = [told.recv().await, told.recv().await];
        began.sort_unstable();
        assert_eq!((began, told.try_recv().is_err()), ([Some(1), Some(2)], true));
        tasks.follow(vec![2, 3], run);
        assert!(tasks.panicked().await.is_panic());
        assert_eq!(told.recv().await, Some(3));
        let before = tokio::time::Instant::now();
        tasks.follow(vec![2, 3], run);
        assert!(tasks.panicked().await.is_panic());
        assert_eq!((told.recv().await, before.elapsed()), (Some(3), BEGUN_ANEW_AFTER));
        tasks.follow(vec![1], run);
        assert_eq!(told.recv().await, Some(1), "it begins again when it is wanted again");
    }
}
