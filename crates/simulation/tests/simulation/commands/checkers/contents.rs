//! What readers are shown of a partition against what the model has at the same batch.

use std::collections::BTreeMap;

use records::{CommandKey, CommandStatus, Happening, TimelineEntryKey};
use store::View;

use crate::commands::model::{Known, Partition};
use crate::harness::feed::both_ways;
use crate::harness::violation::{Checked, Invariant, unreadable};

/// Compares a partition.
pub(crate) fn check(view: &dyn View, model: &Partition) -> Checked {
    let listed = both_ways(|page| {
        let found = view.commands(None, page, &|_, _| true)?;
        Ok(found
            .into_iter()
            .map(|(command, state)| (CommandKey::from(command.id), (command, state)))
            .collect())
    })?;
    let expected: Vec<_> =
        model.commands.values().map(|known| ((*known.command).clone(), known.state.clone())).collect();
    Invariant::AS_THE_MODEL.same("commands", &listed, &expected)?;
    for (key, known) in &model.commands {
        let command = view.command(*key).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("a command", &command.as_ref(), &Some(&*known.command))?;
        let state = view.command_state(*key).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("a command's state", &state.as_ref(), &Some(&known.state))?;
        check_known(known)?;
    }
    check_timelines(view, model)
}

fn check_timelines(view: &dyn View, model: &Partition) -> Checked {
    let slots: BTreeMap<_, _> =
        model.commands.values().map(|known| (known.command.slot, &known.command.device)).collect();
    let mut found: BTreeMap<CommandKey, Vec<(CommandStatus, u32)>> = BTreeMap::new();
    for (slot, device) in slots {
        let entries = both_ways(|page| {
            let entries = view.timeline(slot, page)?;
            Ok(entries.into_iter().map(|entry| (TimelineEntryKey::from(&entry), entry)).collect())
        })?;
        for entry in entries {
            if let Happening::Command { id, status, tries } = entry.what {
                let is_its =
                    model.commands.get(&id.into()).is_some_and(|known| known.command.device == *device);
                Invariant::AS_THE_MODEL.check(is_its, || format!("{id:?} in the timeline of {device}"))?;
                found.entry(id.into()).or_default().push((status, tries));
            }
        }
    }
    let expected: BTreeMap<CommandKey, Vec<_>> =
        model.commands.iter().map(|(key, known)| (*key, known.timeline.clone())).collect();
    Invariant::AS_THE_MODEL.same("timelines", &found, &expected)
}

/// Since it was given or retried, a timeline tells each publish in order, and the end.
fn check_known(known: &Known) -> Checked {
    let scheduled = known.timeline.iter().rposition(|(status, _)| *status == CommandStatus::Scheduled);
    let mut expected: Vec<(CommandStatus, u32)> = vec![(CommandStatus::Scheduled, 0)];
    let tries = known.state.tries;
    expected.extend((1..=tries).map(|number| (CommandStatus::Published, number)));
    if known.state.status.has_ended() {
        expected.push((known.state.status, tries));
    }
    let found = known.timeline[scheduled.unwrap_or(0)..].to_vec();
    Invariant::ONE_EFFECT_PER_CAUSE.same(
        format_args!("timeline of {:?}", known.command.id),
        &found,
        &expected,
    )
}
