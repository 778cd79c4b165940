//! The naive model of rollouts: each of their devices, as batches of the registry tell it. Devices
//! are counted anew after every batch.

use std::collections::BTreeMap;

use base::Incarnation;
use records::{Batch, MemberPlace, Op, RolloutCounts, RolloutMember, RolloutState};

use crate::harness::violation::{Checked, Invariant};

/// All rollouts.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) rollouts: BTreeMap<Incarnation, KnownRollout>,
}

/// A rollout, and its devices.
#[derive(Clone, Debug)]
pub(crate) struct KnownRollout {
    pub(crate) id: Box<str>,
    pub(crate) selector: Option<Box<str>>,
    pub(crate) state: Option<RolloutState>,
    pub(crate) members: BTreeMap<MemberPlace, RolloutMember>,
}

impl Ledger {
    pub(crate) fn step(&mut self, batch: &Batch) -> Checked {
        for op in &batch.ops {
            match op {
                Op::PutRollout(rollout) => {
                    let (id, selector) = (rollout.id.clone(), rollout.selector.clone());
                    let known = KnownRollout { id, selector, state: None, members: BTreeMap::new() };
                    self.rollouts.insert(rollout.incarnation, known);
                }
                Op::PutRolloutState(state) => {
                    let mut all = self.rollouts.values_mut();
                    let known = all.find(|known| known.id == state.id).ok_or_else(|| {
                        Invariant::ONE_EFFECT_PER_CAUSE.broken(format!("nobody began {state:?}"))
                    })?;
                    known.state = Some((**state).clone());
                }
                Op::PutRolloutMember(member) => {
                    let known = self.rollouts.get_mut(&member.place.rollout);
                    let known = known.ok_or_else(|| {
                        Invariant::ONE_EFFECT_PER_CAUSE.broken(format!("nobody began that of {member:?}"))
                    })?;
                    known.members.insert(member.place.clone(), (**member).clone());
                }
                Op::DeleteRolloutMember(place, status) => {
                    if let Some(known) = self.rollouts.get_mut(&place.rollout) {
                        known.members.retain(|at, member| *at != **place || member.status != *status);
                    }
                }
                Op::DeleteRollout(id) => {
                    let detail = format!("rollout {id} is forgotten too soon");
                    return Err(Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(detail));
                }
                _ => {}
            }
        }
        self.rollouts.values().try_for_each(KnownRollout::check_counts)
    }

    /// A rollout by its id.
    pub(crate) fn by_id(&self, id: &str) -> Option<(Incarnation, &KnownRollout)> {
        let mut all = self.rollouts.iter();
        all.find(|(_, known)| *known.id == *id).map(|(incarnation, known)| (*incarnation, known))
    }
}

impl KnownRollout {
    fn check_counts(&self) -> Checked {
        let mut counts = RolloutCounts::default();
        for member in self.members.values() {
            counts.0[member.status as usize] += 1;
        }
        let told = self.state.as_ref().map(|state| state.counts).unwrap_or_default();
        Invariant::AS_THE_MODEL.same(format_args!("counts of rollout {}", self.id), &told, &counts)
    }
}
