//! How long tasks are kept behind their ends.

use records::OutcomeReceiver;

use super::*;
use crate::outcomes::SendResult;

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[test]
fn a_task_is_forgotten_a_day_after_its_end_with_its_picks() {
    let mut bench = Bench::of(700);
    let task = bench.task(600);
    bench.carry(|_| Act::Does);
    bench.pass(Duration::from_secs(24 * 3_600 - 1));
    assert_eq!(bench.stored(task.task.incarnation).2.len(), 600);
    bench.pass(Duration::from_secs(60));
    let view = bench.store.view(PartitionId::CAMPAIGNS).expect("readable");
    let picks = view.picks(task.task.incarnation, None, 10).expect("readable");
    assert_eq!((view.task(task.task.incarnation).expect("readable"), picks), (None, vec![]));
}

#[test]
fn tasks_that_are_kept_longer_do_not_stand_in_the_way_of_others() {
    let mut bench = Bench::of(3);
    let queue = OutcomeReceiver::Queue { namespace: "ns".into(), queue: "q".into() };
    let untold = |bench: &mut Bench| {
        let task = bench.new_task(1, |new| new.terms.receiver = Some(queue.clone())).expect("begun");
        bench.carry(|_| Act::Does);
        task.task.incarnation
    };
    let kept: Vec<_> = (0..350).map(|_| untold(&mut bench)).collect();
    let plain = bench.task(2).task.incarnation;
    bench.carry(|_| Act::Does);
    let is_there = |bench: &Bench, task| {
        let view = bench.store.view(PartitionId::CAMPAIGNS).expect("readable");
        view.task(task).expect("readable").is_some()
    };
    bench.pass(DAY);
    bench.pass(Duration::from_secs(60));
    assert!(!is_there(&bench, plain), "it is behind all that are kept");
    assert!(kept.iter().all(|task| is_there(&bench, *task)), "their ends are to be told");
    for task in &kept {
        let told = |reply| {
            let (task, result) = (*task, SendResult::Delivered);
            CampaignsInput::Task(TaskCall::EndTold { task, result, reply })
        };
        bench.ask(told);
    }
    bench.pass(Duration::from_secs(3_600));
    assert!(!kept.iter().any(|task| is_there(&bench, *task)), "they are looked at again");
}
