//! Requests for tasks that come again.

use records::OutcomeReceiver;

use super::*;

#[test]
fn the_same_request_again_is_the_same_task() {
    let mut bench = Bench::of(10);
    let task = bench.task(2);
    bench.tasks -= 1;
    assert_eq!(bench.task(2).task.incarnation, task.task.incarnation);
    let told = |secret: &[u8]| OutcomeReceiver::Url { url: "https://a/".into(), secret: secret.into() };
    let of = |bench: &mut Bench, secret: &[u8]| {
        let receiver = told(secret);
        bench.new_task(2, |new| new.terms.receiver = Some(receiver)).expect("begun").receiver
    };
    assert_eq!(of(&mut bench, b"1"), Some(told(b"1")));
    bench.tasks -= 1;
    assert_eq!(of(&mut bench, b"2"), Some(told(b"1")), "what is kept is shown");
    bench.tasks -= 1;
    let other = bench.new_task(2, |new| new.request = 8);
    assert_eq!(other.map_err(|problem| problem.code), Err("exists"));
}

#[test]
fn also_when_a_task_has_ended_only_the_same_request_is_a_repeat() {
    let mut bench = Bench::of(10);
    let task = bench.task(2);
    bench.carry(|_| Act::Does);
    for is_another_process in [false, true] {
        if is_another_process {
            bench.load();
        }
        bench.tasks -= 1;
        let repeat = bench.task(2);
        assert_eq!((repeat.task.incarnation, repeat.state.counts.answered), (task.task.incarnation, 2));
        bench.tasks -= 1;
        let other = bench.new_task(2, |new| new.request = 8);
        assert_eq!(other.map_err(|problem| problem.code), Err("exists"));
    }
}
