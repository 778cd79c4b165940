//! Appends of one sender that are handed in one behind the other, without waiting for answers.
//! Where one is refused, or lost with its machine, those behind it are refused too. So what is
//! appended is in the sender's order, and a beginning.

use std::collections::BTreeMap;

use base::Problem;

use crate::kernel::hashed::HashMap;

/// Runs that a partition remembers.
const RUNS_MAX: usize = 8_192;

/// Appends to one stream, one behind the other. It is begun anew whenever all of them are answered.
#[derive(Debug)]
pub struct AppendRun {
    pub(super) run: u64,
    pub(super) next: u64,
}

/// The place of an append in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceInRun {
    pub(super) run: u64,
    pub(super) place: u64,
}

impl PlaceInRun {
    /// The place of an append in a run of somebody else, by a number that nobody else takes.
    #[must_use]
    pub fn of_sender(run: u64, place: u64) -> Self {
        // Runs of this server count from 0.
        Self { run: run | 1 << 63, place }
    }
}

impl AppendRun {
    /// The place of the next append.
    pub(super) fn place(&mut self) -> PlaceInRun {
        self.next += 1;
        PlaceInRun { run: self.run, place: self.next - 1 }
    }
}

/// Which place comes next in each run; those used longest ago are forgotten.
#[derive(Debug, Default)]
pub(super) struct AppendRuns {
    /// The next place, and when the run was used.
    runs: HashMap<u64, (u64, u64)>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl AppendRuns {
    /// Whether all that comes before a place was appended.
    ///
    /// # Errors
    /// 503 `busy` if not.
    pub(super) fn check(&self, at: Option<PlaceInRun>) -> Result<(), Problem> {
        let follows = |at: PlaceInRun| self.runs.get(&at.run).is_some_and(|(next, _)| *next == at.place);
        match at {
            Some(at) if at.place > 0 && !follows(at) => {
                let detail = "messages before these were not appended; append from there on again";
                Err(Problem::new(503, "busy", detail))
            }
            _ => Ok(()),
        }
    }

    /// An append was taken: the one behind it may be.
    pub(super) fn taken(&mut self, at: Option<PlaceInRun>) {
        let Some(PlaceInRun { run, place }) = at else { return };
        self.uses += 1;
        if let Some((_, used)) = self.runs.insert(run, (place + 1, self.uses)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, run);
        if self.runs.len() > RUNS_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.runs.remove(&oldest);
        }
    }

    /// The append whose turn it was is refused: so are those behind it.
    pub(super) fn refused(&mut self, at: Option<PlaceInRun>) {
        if let Some((_, used)) = at.and_then(|at| self.runs.remove(&at.run)) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(runs: &mut AppendRuns, run: u64, place: u64, fits: bool) -> bool {
        let at = Some(PlaceInRun { run, place });
        if runs.check(at).is_err() {
            return false;
        }
        if fits {
            runs.taken(at);
        } else {
            runs.refused(at);
        }
        fits
    }

    #[test]
    fn what_follows_a_refusal_is_refused() {
        let mut runs = AppendRuns::default();
        for (run, place, fits, expect) in [
            (1, 0, true, true),
            (2, 0, true, true),
            (1, 1, true, true),
            (1, 2, false, false),
            (1, 3, true, false),
            (2, 1, true, true),
            (3, 1, true, false),
            (3, 2, true, false),
        ] {
            assert_eq!(is_taken(&mut runs, run, place, fits), expect, "{run} {place}");
        }
        assert!(AppendRuns::default().check(None).is_ok());
    }

    #[test]
    fn an_append_that_overtook_another_is_taken_behind_it() {
        let mut runs = AppendRuns::default();
        for (place, expect) in [(0, true), (2, false), (1, true), (3, false), (2, true), (3, true)] {
            assert_eq!(is_taken(&mut runs, 1, place, true), expect, "{place}");
        }
    }

    #[test]
    fn the_runs_that_were_used_last_are_remembered() {
        let mut runs = AppendRuns::default();
        assert!((0..RUNS_MAX as u64).all(|run| is_taken(&mut runs, run, 0, true)));
        assert!(is_taken(&mut runs, 0, 1, true) && is_taken(&mut runs, u64::MAX, 0, true));
        assert!(is_taken(&mut runs, 0, 2, true) && !is_taken(&mut runs, 1, 1, true));
        assert_eq!((runs.runs.len(), runs.by_use.len()), (RUNS_MAX, RUNS_MAX));
    }
}
