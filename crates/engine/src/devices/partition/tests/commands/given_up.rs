//! Outcomes that their receivers do not take.

use base::log_limit::LINES_MAX;
use store::Store;

use super::super::rig::PARTITION;
use super::*;
use crate::devices::effect::{DeviceEffect, OutcomeGivenUp};
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::{Machine, StepTime};

impl Bench {
    /// A command that has ended, with somebody to be told.
    fn ended(&mut self) -> EntityId {
        let notify = Some(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() });
        let id = self.send(NewCommand { notify, ..plain() });
        self.cancel(id).expect("it waits");
        id
    }

    /// The outcomes that are given up when these attempts have failed, all of them in one step.
    fn fail(&mut self, due: &[OutcomeDue]) -> Vec<OutcomeGivenUp> {
        let failed = |due: &OutcomeDue| -> DeviceInput {
            let (reply, _answer) = Reply::new();
            let (reservation, result) = (due.reservation, SendResult::Failed(None));
            CommandInput::OutcomeTold { reservation, result, reply }.into()
        };
        let inputs: Vec<_> = due.iter().map(failed).collect();
        let rig = &mut self.rig;
        let (now, fetch) = (rig.now(), FromStore::new(&*rig.store, PARTITION));
        let moment = StepTime { now, stamp: now, wall: now };
        let step = rig.partition.step(moment, &mut inputs.into_iter(), &fetch).expect("readable");
        let batch = step.batch.expect("something is written");
        let seq = batch.head.seq;
        rig.store.commit(batch, Box::new(|_| {}));
        rig.partition.settled(seq);
        let given_up = |effect: DeviceEffect| match effect {
            DeviceEffect::OutcomeGivenUp(given_up) => Some(*given_up),
            _ => None,
        };
        step.effects.into_iter().filter_map(given_up).collect()
    }
}

#[test]
fn an_outcome_that_is_given_up_is_told_of_with_its_command_and_after_its_last_attempt() {
    let mut bench = Bench::new();
    let id = bench.ended();
    let most = bench.rig.settings.retry.attempts_max;
    for attempt in 1..=most {
        let due = bench.outcomes();
        let given_up = bench.fail(&due).pop();
        let told = given_up.map(|given_up| (given_up.command.map(|command| command.id), given_up.attempts));
        assert_eq!(told, (attempt == most).then_some((Some(id), Some(most))), "attempt {attempt}");
        bench.rig.pass(Duration::from_secs(600));
    }
    assert!(bench.outcomes().is_empty());
}

#[test]
fn of_many_outcomes_that_are_given_up_in_one_step_a_few_are_told_of_with_their_commands() {
    let mut bench = Bench::new();
    let count = LINES_MAX as usize + 2;
    for _ in 0..count {
        bench.ended();
    }
    let mut given_up = Vec::new();
    for attempt in 1..=bench.rig.settings.retry.attempts_max {
        let due = bench.outcomes();
        assert_eq!((due.len(), given_up.len()), (count, 0), "attempt {attempt}");
        given_up = bench.fail(&due);
        bench.rig.pass(Duration::from_secs(600));
    }
    let told = given_up.iter().filter(|given_up| given_up.command.is_some()).count();
    assert_eq!((given_up.len(), told), (count, LINES_MAX as usize));
}
