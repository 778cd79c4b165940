//! What two stores show of commands, desired entries, sessions and timelines.

use base::Timestamp;
use base::random::Random;
use records::{Command, CommandKey, CommandPhase, CommandState, DeviceSlot, OpenCommand, TimelineEntryKey};

use super::{page, read};
use crate::conformance::traffic::Traffic;
use crate::port::View;

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    for key in traffic.commands() {
        assert_eq!(read(view.command(key)), read(model.command(key)), "{context} {key:?}");
        assert_eq!(read(view.command_state(key)), read(model.command_state(key)), "{context} {key:?}");
    }
    assert_eq!(read(view.unanswered_commands()), read(model.unanswered_commands()), "{context}");
    for slot in traffic.slots_about_devices() {
        of_device(view, model, slot, random, context);
    }
    for phase in CommandPhase::ALL {
        let all = read(model.slots_with_commands(phase, None, usize::MAX));
        let after = all.get(random.below(1 + all.len() as u64) as usize).copied();
        let limit = random.below(10) as usize;
        let slots = |view: &dyn View| read(view.slots_with_commands(phase, after, limit));
        assert_eq!(slots(view), slots(model), "{context} {phase:?} {after:?} {limit}");
    }
    for _ in 0..6 {
        by_time(view, model, traffic, random, context);
    }
}

fn of_device(view: &dyn View, model: &dyn View, slot: DeviceSlot, random: &mut Random, context: &str) {
    let context = format!("{context} {slot:?}");
    for phase in CommandPhase::ALL {
        let limit = random.below(6) as usize;
        let open = |view: &dyn View| read(view.open_commands(slot, phase, limit));
        assert_eq!(open(view), open(model), "{context} {phase:?} {limit}");
    }
    assert_eq!(read(view.has_open_commands(slot)), read(model.has_open_commands(slot)), "{context}");
    for key in Traffic::keys() {
        let hash = OpenCommand::key_hash(key);
        let with_key = |view: &dyn View| read(view.commands_with_key(slot, hash));
        assert_eq!(with_key(view), with_key(model), "{context} {key}");
        assert_eq!(
            read(view.desired_state(slot, key)),
            read(model.desired_state(slot, key)),
            "{context} {key}"
        );
    }
    assert_eq!(read(view.desired_states(slot)), read(model.desired_states(slot)), "{context}");
    assert_eq!(read(view.device_session(slot)), read(model.device_session(slot)), "{context}");
}

fn by_time(view: &dyn View, model: &dyn View, traffic: &Traffic, random: &mut Random, context: &str) {
    let (start, end) = traffic.times();
    let until = Timestamp(start.0 + random.below((end.0 - start.0) as u64) as i64);
    let limit = random.below(20) as usize;
    let due = |view: &dyn View| read(view.commands_due(None, until, limit));
    assert_eq!(due(view), due(model), "{context} {until:?} {limit}");
    let finished = |view: &dyn View| read(view.finished_commands(until, limit));
    assert_eq!(finished(view), finished(model), "{context} {until:?} {limit}");

    let slot = DeviceSlot(random.below(u64::from(traffic.slots()) + 1) as u32);
    let whose = (random.below(2) == 0).then_some(slot);
    let all = random.below(2) == 0;
    let keep = |command: &Command, state: &CommandState| {
        all || (command.origin.is_some() && !state.status.has_ended())
    };
    let page = self::page(random, traffic, |at, number| CommandKey { at, number });
    let commands = |view: &dyn View| read(view.commands(whose, page, &keep));
    assert_eq!(commands(view), commands(model), "{context} {whose:?} {page:?}");
    let page = self::page(random, traffic, |at, number| TimelineEntryKey { at, number });
    let timeline = |view: &dyn View| read(view.timeline(slot, page));
    assert_eq!(timeline(view), timeline(model), "{context} {slot:?} {page:?}");
}
