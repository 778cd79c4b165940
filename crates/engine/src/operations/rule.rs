//! How an operation goes on: chunk by chunk, at its rate, until its list ends.
//!
//! ```text
//!   running --- the list ended, and its last chunk had its turn ---> done
//!      |  cancel ---------------------------------------------------> cancelled
//!      '-- its list cannot be read, its caller may no longer -------> failed
//! ```
//!
//! A chunk is written before anything is done to its rows. So after a crash the rows of one chunk
//! have their turn again, and no others. These functions decide over an [`Operation`] and its
//! [`OperationState`] alone.

use std::time::Duration;

use base::Timestamp;
use records::{Operation, OperationCounts, OperationError, OperationState, OperationStatus};

/// Most rows of a chunk: what is done again after a crash, and what is still done after a
/// cancellation.
pub const CHUNK_ROWS_MAX: usize = 100;
/// Chunks in a second at a low rate: so often its counts change.
const CHUNKS_PER_SECOND: u32 = 4;

/// What became of the rows of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkOutcome {
    /// Of which chunk: [`OperationState::chunk_number`].
    pub chunk: u64,
    /// Rows to which the action was done.
    pub done: u64,
    /// Rows for which it was refused.
    pub refused: u64,
    /// Rows for which nothing was to be done.
    pub skipped: u64,
    /// The latest refusal.
    pub last_error: Option<OperationError>,
}

/// The next rows of an operation's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextChunk {
    /// Their ids; at most [`chunk_rows`]. May be none where a chunk of the list had no match.
    pub rows: Vec<Box<str>>,
    /// Where the list goes on behind them; `None` at its end.
    pub next: Option<Box<[u8]>>,
}

/// What the worker of an operation tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationProgress {
    /// The rows of the chunk had their turn.
    pub outcome: Option<ChunkOutcome>,
    /// The rows whose turn comes then.
    pub chunk: Option<NextChunk>,
    /// It cannot go on.
    pub failure: Option<OperationError>,
    /// It cannot go on now; it is tried again.
    pub waits_for: Option<OperationError>,
}

/// Why what is told of an operation, or its cancellation, has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It has ended so.
    HasEnded(OperationStatus),
    /// The outcome is that of another chunk: it was counted before.
    OtherChunk,
}

/// The state of an operation that begins.
#[must_use]
pub fn begin(operation: &Operation) -> OperationState {
    OperationState {
        id: operation.id,
        status: OperationStatus::Running,
        chunk: Vec::new(),
        next: Some(Box::default()),
        next_at: operation.created_at,
        counts: OperationCounts::default(),
        ended_at: None,
        last_error: None,
    }
}

/// Rows of a chunk at that rate.
#[must_use]
pub fn chunk_rows(rate: u32) -> usize {
    (rate.div_ceil(CHUNKS_PER_SECOND) as usize).clamp(1, CHUNK_ROWS_MAX)
}

/// What the worker told. The counts of a chunk are taken also of an operation that was cancelled
/// meanwhile; no further chunk is.
///
/// # Errors
/// When it has ended, and its chunk was told; when the outcome is not that of its present chunk.
/// Then nothing is changed.
pub fn progressed(
    operation: &Operation,
    state: &mut OperationState,
    progress: OperationProgress,
    now: Timestamp,
) -> Result<(), NotTaken> {
    let OperationProgress { outcome, chunk, failure, waits_for } = progress;
    if state.status.has_ended() && (outcome.is_none() || state.chunk.is_empty()) {
        return Err(NotTaken::HasEnded(state.status));
    }
    if let Some(outcome) = outcome {
        if state.chunk.is_empty() || outcome.chunk != state.chunk_number() {
            return Err(NotTaken::OtherChunk);
        }
        let had_turn = outcome.done + outcome.refused + outcome.skipped;
        state.counts.done += outcome.done;
        state.counts.refused += outcome.refused;
        state.counts.skipped += outcome.skipped;
        // What must not go on leaves rows without a turn: they do not count as found.
        if state.status.has_ended() || failure.is_some() {
            state.counts.matched -= (state.chunk.len() as u64).saturating_sub(had_turn);
        }
        state.chunk = Vec::new();
        if let Some(error) = outcome.last_error {
            state.last_error = Some(Box::new(error));
        }
    }
    if state.status.has_ended() {
        return Ok(());
    }
    if let Some(error) = failure {
        state.last_error = Some(Box::new(error));
        end(state, OperationStatus::Failed, now);
        return Ok(());
    }
    if let Some(error) = waits_for {
        state.last_error = Some(Box::new(error));
    }
    if let Some(NextChunk { rows, next }) = chunk.filter(|_| state.chunk.is_empty()) {
        state.counts.matched += rows.len() as u64;
        state.next_at = now.after(time_of(rows.len(), operation.rate));
        (state.chunk, state.next) = (rows, next);
    }
    if state.chunk.is_empty() && state.next.is_none() {
        end(state, OperationStatus::Done, now);
    }
    Ok(())
}

/// Calls an operation off.
///
/// # Errors
/// When it has ended.
pub fn cancel(state: &mut OperationState, now: Timestamp) -> Result<(), NotTaken> {
    if state.status.has_ended() {
        return Err(NotTaken::HasEnded(state.status));
    }
    end(state, OperationStatus::Cancelled, now);
    Ok(())
}

/// The time that so many rows take at a rate.
fn time_of(rows: usize, rate: u32) -> Duration {
    Duration::from_millis(rows as u64 * 1_000 / u64::from(rate.max(1)))
}

fn end(state: &mut OperationState, status: OperationStatus, now: Timestamp) {
    state.status = status;
    state.ended_at = Some(now);
}

#[cfg(test)]
mod tests {
    use base::EntityId;
    use records::OperationAction;

    use super::*;

    fn operation(rate: u32) -> Operation {
        Operation {
            id: EntityId { routing: 0, at: Timestamp(1_000), number: 0, tag: 0 },
            action: OperationAction::DeleteDevice,
            filter: "{}".into(),
            arguments: "{}".into(),
            rate,
            by: Some("token".into()),
            scopes: Vec::new(),
            created_at: Timestamp(1_000),
            until: Timestamp(1_001),
        }
    }

    fn chunk(rows: usize, next: Option<&[u8]>) -> OperationProgress {
        let rows = (0..rows).map(|row| row.to_string().into()).collect();
        let chunk = NextChunk { rows, next: next.map(Box::from) };
        OperationProgress { chunk: Some(chunk), ..OperationProgress::default() }
    }

    /// The outcome of the present chunk.
    fn outcome(state: &OperationState, [done, refused, skipped]: [u64; 3]) -> OperationProgress {
        let outcome = ChunkOutcome { chunk: state.chunk_number(), done, refused, skipped, last_error: None };
        OperationProgress { outcome: Some(outcome), ..OperationProgress::default() }
    }

    fn tell(state: &mut OperationState, progress: OperationProgress, now: i64) {
        progressed(&operation(10), state, progress, Timestamp(now)).expect("it goes on");
    }

    #[test]
    fn it_is_done_when_the_list_has_ended_and_the_last_chunk_had_its_turn() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(2, Some(b"k")), 1_000);
        assert_eq!((state.chunk.len(), state.next.as_deref()), (2, Some(&b"k"[..])));
        let both = OperationProgress { chunk: chunk(1, None).chunk, ..outcome(&state, [1, 1, 0]) };
        tell(&mut state, both, 1_200);
        assert_eq!((state.status, state.chunk.len()), (OperationStatus::Running, 1));
        let last = outcome(&state, [0, 0, 1]);
        tell(&mut state, last, 1_300);
        assert_eq!((state.status, state.ended_at), (OperationStatus::Done, Some(Timestamp(1_300))));
        let counts = OperationCounts { matched: 3, done: 1, refused: 1, skipped: 1 };
        assert_eq!(state.counts, counts);
    }

    #[test]
    fn a_list_without_a_match_is_done_at_once() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(0, Some(b"far")), 1_000);
        assert_eq!((state.status, state.next_at), (OperationStatus::Running, Timestamp(1_000)));
        tell(&mut state, chunk(0, None), 1_001);
        assert_eq!(state.status, OperationStatus::Done);
    }

    #[test]
    fn a_chunk_is_not_replaced_before_it_had_its_turn() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(2, Some(b"k")), 1_000);
        let before = state.clone();
        tell(&mut state, chunk(5, None), 1_100);
        assert_eq!(state, before);
    }

    #[test]
    fn an_outcome_that_is_told_again_is_not_counted_for_the_next_chunk() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(2, Some(b"k")), 1_000);
        let first = outcome(&state, [2, 0, 0]);
        tell(&mut state, OperationProgress { chunk: chunk(3, None).chunk, ..first.clone() }, 1_200);
        let before = state.clone();
        let again = progressed(&operation(10), &mut state, first, Timestamp(1_300));
        assert_eq!((again, &state), (Err(NotTaken::OtherChunk), &before));
        let second = outcome(&state, [3, 0, 0]);
        tell(&mut state, second, 1_400);
        assert_eq!((state.status, state.counts.done), (OperationStatus::Done, 5));
    }

    #[test]
    fn an_outcome_without_a_chunk_is_not_counted() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(2, Some(b"k")), 1_000);
        let only = outcome(&state, [2, 0, 0]);
        tell(&mut state, only.clone(), 1_100);
        let again = progressed(&operation(10), &mut state, only, Timestamp(1_200));
        assert_eq!((again, state.counts.done), (Err(NotTaken::OtherChunk), 2));
    }

    #[test]
    fn what_it_waits_for_is_told_and_it_goes_on() {
        let mut state = begin(&operation(10));
        let error = OperationError { code: "busy".into(), detail: "d".into(), subject: Box::default() };
        let waits = OperationProgress { waits_for: Some(error.clone()), ..OperationProgress::default() };
        tell(&mut state, waits, 1_000);
        assert_eq!((state.status, state.last_error), (OperationStatus::Running, Some(Box::new(error))));
    }

    #[test]
    fn the_rate_bounds_rows_in_a_second() {
        for (rate, rows) in [(1, 1), (4, 1), (10, 3), (400, 100), (10_000, 100)] {
            assert_eq!(chunk_rows(rate), rows, "rate {rate}");
        }
        for rate in [1, 7, 10, 400, 1_000] {
            let (operation, mut now, mut rows) = (operation(rate), Timestamp(1_000), 0);
            let mut state = begin(&operation);
            while now < Timestamp(61_000) {
                let next = chunk(chunk_rows(rate), Some(b"k"));
                progressed(&operation, &mut state, next, now).expect("it goes on");
                rows += state.chunk.len();
                let all = outcome(&state, [state.chunk.len() as u64, 0, 0]);
                progressed(&operation, &mut state, all, now).expect("it goes on");
                now = state.next_at;
            }
            let (least, most) = (rate as usize * 59, rate as usize * 61 + CHUNK_ROWS_MAX);
            assert!((least..=most).contains(&rows), "rate {rate}: {rows} rows in a minute");
        }
    }

    #[test]
    fn a_cancelled_operation_takes_what_its_chunk_came_to_and_no_further_chunk() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(2, Some(b"k")), 1_000);
        cancel(&mut state, Timestamp(1_050)).expect("it went on");
        let further = OperationProgress { chunk: chunk(9, None).chunk, ..outcome(&state, [2, 0, 0]) };
        tell(&mut state, further, 1_100);
        assert_eq!((state.counts.matched, state.counts.done, state.chunk.len()), (2, 2, 0));
        assert_eq!((state.status, state.ended_at), (OperationStatus::Cancelled, Some(Timestamp(1_050))));
        let more = outcome(&state, [1, 0, 0]);
        let late = progressed(&operation(10), &mut state, more, Timestamp(1_200));
        assert_eq!(late, Err(NotTaken::HasEnded(OperationStatus::Cancelled)));
        assert_eq!(cancel(&mut state, Timestamp(1_300)), Err(NotTaken::HasEnded(OperationStatus::Cancelled)));
    }

    #[test]
    fn rows_of_a_cancelled_operation_that_have_no_turn_do_not_count_as_found() {
        let mut state = begin(&operation(10));
        tell(&mut state, chunk(5, Some(b"k")), 1_000);
        cancel(&mut state, Timestamp(1_050)).expect("it went on");
        let two = outcome(&state, [1, 1, 0]);
        tell(&mut state, two, 1_100);
        assert_eq!(state.counts, OperationCounts { matched: 2, done: 1, refused: 1, skipped: 0 });
        assert!(state.chunk.is_empty());
    }

    #[test]
    fn a_failure_ends_it_and_is_told() {
        let mut state = begin(&operation(10));
        let error = OperationError { code: "c".into(), detail: "d".into(), subject: Box::default() };
        let failed = OperationProgress { failure: Some(error.clone()), ..OperationProgress::default() };
        tell(&mut state, failed, 1_000);
        assert_eq!((state.status, state.last_error), (OperationStatus::Failed, Some(Box::new(error))));
    }
}
