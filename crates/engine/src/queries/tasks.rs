//! Tasks and what came of their picks, as far as they are durable.

use std::sync::Arc;

use base::{EntityId, Incarnation, PartitionId, Problem, Timestamp};
use records::{DevicePlace, Pick};

use super::{Queries, unreadable};
use crate::campaigns::TrackedTask;

impl Queries {
    /// A task. A slot of a campaign is none.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn task(&self, id: &EntityId) -> Result<Option<TrackedTask>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        let Some(task) = view.task_of(id).map_err(unreadable)? else { return Ok(None) };
        let state = view.task_state(task.incarnation).map_err(unreadable)?;
        Ok(state.map(|state| TrackedTask { task: Arc::new(task), state, receiver: None }))
    }

    /// Picks of a task that have ended, in the order in which they did or the other way round.
    /// `after` is the number of the last one of the page before.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn task_results(
        &self,
        task: Incarnation,
        after: Option<u32>,
        is_descending: bool,
        limit: usize,
    ) -> Result<Vec<Pick>, Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        view.results(task, after, is_descending, limit).map_err(unreadable)
    }

    /// How often the first of these devices were picked since a time. Of one device no more than
    /// `most` picks are counted. As many devices are counted as a cost of `cost_max` rows leads to,
    /// but one at least. Beside them, what that cost.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn picks_since(
        &self,
        places: &[DevicePlace],
        since: Timestamp,
        (most, cost_max): (usize, usize),
    ) -> Result<(Vec<u64>, usize), Problem> {
        let view = self.view(PartitionId::CAMPAIGNS)?;
        counted_within(places, (most, cost_max), |place, most| {
            Ok(view.picks_since(*place, since, most).map_err(unreadable)?.len())
        })
    }
}

/// Counts rows of the first items, as far as a cost leads, and says what it cost: each item and
/// each row costs 1. `count` counts no more rows of an item than it is told.
fn counted_within<T>(
    items: &[T],
    (most, cost_max): (usize, usize),
    count: impl Fn(&T, usize) -> Result<usize, Problem>,
) -> Result<(Vec<u64>, usize), Problem> {
    let (mut counts, mut cost) = (Vec::new(), 0);
    for item in items {
        let is_first = counts.is_empty();
        let left = if is_first { most } else { cost_max.saturating_sub(cost + 1) };
        // One more than there is room for: then this item is left for another time.
        let rows = count(item, most.min(left.saturating_add(1)))?;
        if rows > left || (!is_first && left == 0) {
            break;
        }
        counts.push(rows as u64);
        cost += 1 + rows;
    }
    Ok((counts, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_as_far_as_a_cost_leads_and_one_at_least() {
        let read = std::cell::Cell::new(0);
        let counted = |rows: &[usize], most, cost_max| {
            read.set(0);
            let counted = counted_within(rows, (most, cost_max), |rows, most| {
                read.set(read.get() + (*rows).min(most));
                Ok((*rows).min(most))
            });
            counted.expect("nothing fails")
        };
        assert_eq!(counted(&[3, 0, 5], 10, 100), (vec![3, 0, 5], 11));
        assert_eq!(counted(&[30, 1], 10, 100), (vec![10, 1], 13), "of one item no more than that");
        assert_eq!(counted(&[9_000, 9_000, 9_000], 10_000, 10_000), (vec![9_000], 9_001));
        assert!(read.get() <= 10_001, "{} rows", read.get());
        assert_eq!(counted(&[9_000, 1], 10_000, 5), (vec![9_000], 9_001), "one at least");
        assert_eq!(counted(&[1, 2, 3, 4], 10, 6), (vec![1, 2], 5));
    }
}
