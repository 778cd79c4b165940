//! Outcomes that their receivers do not take.

use store::Store;

use super::super::rig::PARTITION;
use super::*;
use crate::devices::effect::{DeviceEffect, OutcomeGivenUp};
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::{Machine, Moment};

impl Bench {
    /// The outcome that is given up when this attempt has failed, if it is.
    fn fails(&mut self, OutcomeDue { reservation, .. }: &OutcomeDue) -> Option<OutcomeGivenUp> {
        let (reservation, result, (reply, _answer)) = (*reservation, SendResult::Failed(None), Reply::new());
        let input: DeviceInput = CommandInput::OutcomeTold { reservation, result, reply }.into();
        let rig = &mut self.rig;
        let (now, fetch) = (rig.now(), FromStore::new(&*rig.store, PARTITION));
        let moment = Moment { now, stamp: now, wall: now };
        let step = rig.partition.step(moment, &mut [input].into_iter(), &fetch).expect("readable");
        let batch = step.batch.expect("something is written");
        let seq = batch.head.seq;
        rig.store.commit(batch, Box::new(|_| {}));
        rig.partition.settled(seq);
        step.effects.into_iter().find_map(|effect| match effect {
            DeviceEffect::OutcomeGivenUp(given_up) => Some(*given_up),
            _ => None,
        })
    }
}

#[test]
fn an_outcome_that_is_given_up_is_told_of_with_its_command_and_after_its_last_attempt() {
    let mut bench = Bench::new();
    let notify = Some(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() });
    let id = bench.send(NewCommand { notify, ..plain() });
    bench.cancel(id).expect("it waits");
    let most = bench.rig.settings.retry.attempts_max;
    for attempt in 1..=most {
        let due = bench.outcomes().remove(0);
        let given_up = bench.fails(&due);
        let told = given_up.map(|given_up| (given_up.command.map(|command| command.id), given_up.attempts));
        assert_eq!(told, (attempt == most).then_some((Some(id), Some(most))), "attempt {attempt}");
        bench.rig.pass(Duration::from_secs(600));
    }
    assert!(bench.outcomes().is_empty());
}
