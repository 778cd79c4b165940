//! The figures of queues that streams asked for at one moment: many pages that show the same queues
//! are one question to their partitions.

use std::collections::HashMap;
use std::sync::Mutex;

use base::Problem;
use base::locks::locked;
use engine::queues::{QueueName, QueueStats};
use tokio::sync::Semaphore;

use super::LiveLook;

/// Streams that ask at the same time; the others find what these were answered.
const ASKING_MAX: usize = 4;
/// Queues whose figures are kept at a time, of about a kilobyte each.
const KEPT_MAX: usize = 4_096;

/// What was answered lately.
#[derive(Debug)]
pub(super) struct QueueMemo {
    turns: Semaphore,
    entries: Mutex<QueueEntries>,
}

#[derive(Debug, Default)]
struct QueueEntries {
    tick: u64,
    stats: HashMap<QueueName, QueueStats>,
}

impl Default for QueueMemo {
    fn default() -> Self {
        Self { turns: Semaphore::new(ASKING_MAX), entries: Mutex::default() }
    }
}

impl QueueMemo {
    /// How these queues stand at the moment of the look.
    ///
    /// # Errors
    /// 503 when the server is not accepting.
    pub(super) async fn stats_of(
        &self,
        look: &LiveLook<'_>,
        names: &[QueueName],
    ) -> Result<Vec<QueueStats>, Problem> {
        let _turn = self.turns.acquire().await.expect("the turns are never closed");
        let (mut stats, missing) = locked(&self.entries).known(look.tick, names);
        if !missing.is_empty() {
            let asked = look.api.queues().stats_of(&missing).await?;
            locked(&self.entries).keep(look.tick, &asked);
            stats.extend(asked);
        }
        Ok(stats)
    }
}

impl QueueEntries {
    /// What is known of these at that moment, and those of which nothing is.
    fn known(&mut self, tick: u64, names: &[QueueName]) -> (Vec<QueueStats>, Vec<QueueName>) {
        if tick > self.tick {
            *self = Self { tick, ..Self::default() };
        }
        let (mut stats, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match self.stats.get(name).filter(|_| tick == self.tick) {
                Some(known) => stats.push(known.clone()),
                None => missing.push(name.clone()),
            }
        }
        (stats, missing)
    }

    fn keep(&mut self, tick: u64, asked: &[QueueStats]) {
        if tick != self.tick {
            return;
        }
        let room = KEPT_MAX.saturating_sub(self.stats.len());
        self.stats.extend(asked.iter().take(room).map(|stats| (stats.name.clone(), stats.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(queue: &str) -> QueueStats {
        QueueStats::empty(QueueName::new("mail", queue).expect("a name"))
    }

    #[test]
    fn a_queue_is_asked_for_once_at_a_moment() {
        let mut entries = QueueEntries::default();
        let names = ["out", "in"].map(|queue| stats(queue).name);
        assert_eq!(entries.known(1, &names).1, names);
        entries.keep(1, &[stats("out")]);
        assert_eq!(entries.known(1, &names), (vec![stats("out")], vec![stats("in").name]));
        // A late answer is kept for nobody.
        assert_eq!(entries.known(2, &names).1, names);
        entries.keep(1, &[stats("out")]);
        assert_eq!(entries.known(2, &names).1, names);
    }
}
