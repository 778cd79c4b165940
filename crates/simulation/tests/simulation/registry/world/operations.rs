//! Operations: who begins them and calls them off, and the lists that they go through. Their worker
//! goes on as that of the crate `api` does.

use std::collections::BTreeMap;

use base::{EntityId, PartitionId, Problem, Timestamp};
use engine::kernel::reply::Reply;
use engine::operations::rule::chunk_rows;
use engine::operations::{
    ChunkOutcome, NewOperation, NextChunk, OperationInput, OperationProgress, TrackedOperation,
};
use engine::registry::RegistryInput;
use records::{OperationAction, OperationState, OperationStatus};

use super::{Answer, Then, World};
use crate::harness::calls::Waiting;
use crate::harness::port::AnyPort;
use crate::harness::violation::{Checked, Invariant, unreadable};
use crate::registry::fault_injection::{CHUNK_NOT_AWAITED, OUTCOME_TOLD_WRONG};

/// The rows of an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    rows: u64,
    rate: u32,
    /// Rows that had their turn, and in which life of the process and of the registry.
    turns: BTreeMap<u64, (u64, Option<u32>)>,
}

/// One row in so many is refused.
const REFUSED_EACH: u64 = 5;
/// Operations that are read at a time.
const READ_AT_ONCE: usize = 1_000;

impl World {
    /// An operation begins.
    pub(super) fn begin_operation(&mut self) {
        self.last_number += 1;
        let id = EntityId { routing: 0, at: self.now(), number: self.last_number, tag: 1 };
        let rows = self.machine.random.below(self.plan.rows + 1);
        let rate = 1 + self.machine.random.below(1_000) as u32;
        let new = Box::new(NewOperation {
            action: OperationAction::DeleteDevice,
            filter: "{}".into(),
            arguments: "{}".into(),
            rate,
            by: None,
            scopes: Vec::new(),
        });
        let (reply, receiver) = Reply::new();
        let input = RegistryInput::Operations(OperationInput::Create { id, new, until: self.now(), reply });
        // It may be written, and nobody be told.
        self.lists.insert(id, Listed { rows, rate, ..Listed::default() });
        let _takes = self.ask(input, Waiting::on(receiver, Answer::Begun), Then::Begun(rows));
    }

    pub(super) fn begun(&mut self, rows: u64, begun: Result<Box<TrackedOperation>, Problem>) -> Checked {
        match begun {
            Ok(tracked) => {
                self.counts.begun += 1;
                let id = tracked.operation.id;
                let listed = self.lists.get(&id).map(|listed| listed.rows);
                Invariant::AS_THE_MODEL.same("the rows of an operation", &listed, &Some(rows))?;
                if let Some(server) = &mut self.server {
                    server.working.entry(id).or_insert_with(|| Box::new(tracked.state));
                }
                Ok(())
            }
            Err(problem) => {
                self.counts.too_many += 1;
                let is_right = problem.code == "too_many_operations";
                Invariant::AS_THE_MODEL.check(is_right, || format!("refused without a reason: {problem:?}"))
            }
        }
    }

    /// Somebody calls an operation off.
    pub(super) fn cancel_operation(&mut self) {
        let known: Vec<_> = self.lists.keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let newest = &known[known.len().saturating_sub(5)..];
        let id = self.machine.random.one_of(newest);
        let (reply, receiver) = Reply::new();
        let input = RegistryInput::Operations(OperationInput::Cancel { id, reply });
        let _takes = self.ask(input, Waiting::on(receiver, Answer::Cancelled), Then::Nothing);
    }

    /// The worker reads what goes on, when it starts and where it was not told.
    fn read_operations(&mut self) -> Checked {
        let life = self.registry().and_then(AnyPort::life);
        let Some(server) = &mut self.server else { return Ok(()) };
        if life.is_none() || server.read_in == life {
            return Ok(());
        }
        // What it reads it may show: it is durable.
        let Ok(view) = server.context.kernel.store.view(PartitionId::REGISTRY) else { return Ok(()) };
        let states = view.operation_states(None, READ_AT_ONCE).map_err(unreadable)?;
        let told = &server.told;
        server.working.retain(|id, _| told.contains(id));
        for state in states.into_iter().filter(|state| !state.status.has_ended()) {
            server.working.entry(state.id).or_insert_with(|| Box::new(state));
        }
        server.read_in = life;
        Ok(())
    }

    /// The worker goes on with an operation. Whether there was anything to do.
    pub(super) fn work(&mut self) -> Checked<bool> {
        if !self.has_room() {
            return Ok(false);
        }
        self.read_operations()?;
        let now = self.now();
        let Some(server) = &self.server else { return Ok(false) };
        let is_next = |state: &&OperationState| {
            !server.told.contains(&state.id)
                && (!state.chunk.is_empty() || state.next.is_some() && state.next_at <= now)
        };
        let ready: Vec<_> = server.working.values().map(|state| &**state).filter(is_next).cloned().collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let state = self.machine.random.one_of(&ready);
        let progress = self.progress(&state, now)?;
        let id = state.id;
        let (reply, receiver) = Reply::new();
        let progress = Box::new(progress);
        let input = RegistryInput::Operations(OperationInput::Progress { id, progress, reply });
        if self.ask(input, Waiting::on(receiver, Answer::Progressed), Then::Progressed(id))
            && let Some(server) = &mut self.server
        {
            server.told.insert(id);
        }
        Ok(true)
    }

    fn progress(&mut self, state: &OperationState, now: Timestamp) -> Checked<OperationProgress> {
        let mut progress = OperationProgress::default();
        if !state.chunk.is_empty() {
            let mut outcome = ChunkOutcome { chunk: state.chunk_number(), ..ChunkOutcome::default() };
            // Whoever hears that it is called off stops in the midst of a chunk.
            let stops = self.is_called_off(state.id)?;
            for row in &state.chunk {
                if stops && self.machine.random.chance(1, 4) {
                    break;
                }
                let row = row.parse().expect("rows are numbers");
                self.act_on(state.id, row, &mut outcome)?;
            }
            if self.machine.injects(OUTCOME_TOLD_WRONG) {
                outcome.refused = 0;
            }
            progress.outcome = Some(outcome);
        }
        let with_next = state.chunk.is_empty() || self.machine.random.chance(1, 2);
        if let Some(next) = state.next.as_ref().filter(|_| with_next && state.next_at <= now) {
            let chunk = self.next_chunk(state.id, next);
            if self.machine.injects(CHUNK_NOT_AWAITED) {
                let mut unknown = ChunkOutcome::default();
                for row in &chunk.rows {
                    self.act_on(state.id, row.parse().expect("rows are numbers"), &mut unknown)?;
                }
            }
            progress.chunk = Some(chunk);
        }
        Ok(progress)
    }

    fn is_called_off(&self, id: EntityId) -> Checked<bool> {
        let Some(server) = &self.server else { return Ok(false) };
        let Ok(view) = server.context.kernel.store.view(PartitionId::REGISTRY) else { return Ok(false) };
        Ok(view.operation_state(id).map_err(unreadable)?.is_some_and(|state| state.status.has_ended()))
    }

    fn next_chunk(&self, id: EntityId, next: &[u8]) -> NextChunk {
        let listed = &self.lists[&id];
        let from = <[u8; 8]>::try_from(next).map_or(0, u64::from_be_bytes);
        // A chunk of the list may have no match.
        let rows = if self.machine.random.chance(1, 8) { 0 } else { chunk_rows(listed.rate) as u64 };
        let to = (from + rows).min(listed.rows);
        let rows = (from..to).map(|row| row.to_string().into()).collect();
        NextChunk { rows, next: (to < listed.rows).then(|| to.to_be_bytes().into()) }
    }

    /// A row has its turn.
    fn act_on(&mut self, id: EntityId, row: u64, outcome: &mut ChunkOutcome) -> Checked {
        let found = self.model.present.operations.get(&id).map_or(0, |state| state.counts.matched);
        Invariant::WRITTEN_BEFORE_DONE
            .check(row < found, || format!("row {row} of {id:?}, of which {found} are written"))?;
        let life = (self.machine.processes(), self.registry().and_then(AnyPort::life));
        let before = self.lists.get_mut(&id).and_then(|listed| listed.turns.insert(row, life));
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(before != Some(life), || format!("row {row} of {id:?} has two turns in one life"))?;
        self.counts.rows_again += u64::from(before.is_some());
        match before {
            _ if row.is_multiple_of(REFUSED_EACH) => outcome.refused += 1,
            Some(_) => outcome.skipped += 1,
            None => {
                self.counts.rows += 1;
                outcome.done += 1;
            }
        }
        Ok(())
    }

    pub(super) fn went_on(&mut self, id: EntityId, state: Result<Box<OperationState>, Problem>) {
        let Some(server) = &mut self.server else { return };
        server.told.remove(&id);
        match state {
            Ok(state) if !state.status.has_ended() => drop(server.working.insert(id, state)),
            _ => drop(server.working.remove(&id)),
        }
    }

    /// When the worker goes on with something.
    pub(super) fn next_work(&self) -> Option<Timestamp> {
        let server = self.server.as_ref()?;
        let idle = server.working.values().filter(|state| !server.told.contains(&state.id));
        idle.filter(|state| state.next.is_some()).map(|state| state.next_at).min()
    }

    pub(super) fn all_have_ended(&self) -> bool {
        self.model.present.operations.values().all(|state| state.status.has_ended())
    }

    /// Every row has its end, and the counts say which.
    pub(super) fn check_operations(&mut self) -> Checked {
        for state in self.model.present.operations.values() {
            let Some(listed) = self.lists.get(&state.id) else { continue };
            let (counts, turns) = (state.counts, listed.turns.len() as u64);
            let refused = listed.turns.keys().filter(|row| row.is_multiple_of(REFUSED_EACH)).count() as u64;
            let is_right = match state.status {
                OperationStatus::Done => {
                    let ended = (counts.matched, turns) == (listed.rows, listed.rows);
                    ended && counts.refused == refused && counts.done + counts.skipped == turns - refused
                }
                // A row whose turn was not told before a crash has none after its operation's end.
                OperationStatus::Cancelled => counts.done + counts.refused + counts.skipped <= turns,
                OperationStatus::Running | OperationStatus::Failed => false,
            };
            self.counts.done += u64::from(state.status == OperationStatus::Done);
            self.counts.cancelled += u64::from(state.status == OperationStatus::Cancelled);
            Invariant::ROWS_ARE_COUNTED
                .check(is_right, || format!("{turns} of {} rows had a turn: {state:?}", listed.rows))?;
        }
        Ok(())
    }
}
