//! Devices that poll for their commands.

use super::*;

#[test]
fn a_device_that_polls_gets_the_same_command_until_it_answers() {
    let mut bench = Bench::new();
    let (first, second) = (bench.send(plain()), bench.send(plain()));
    let poll = |bench: &mut Bench| {
        let given =
            bench.rig.ask(|reply| CommandInput::Poll { device: device(), number: None, reply }.into());
        given.expect("known").map(|command| command.id)
    };
    assert_eq!(poll(&mut bench), Some(first));
    assert_eq!(poll(&mut bench), Some(first));
    assert_eq!(bench.status(first), (CommandStatus::Published, 1));
    bench.rig.pass(ACK_TIMEOUT);
    assert_eq!(poll(&mut bench), Some(first));
    assert_eq!(bench.status(first), (CommandStatus::Published, 2));
    bench.rig.say(DEVICE, answer(first, true));
    assert_eq!(poll(&mut bench), Some(second));
    bench.rig.say(DEVICE, answer(second, true));
    assert_eq!(poll(&mut bench), None);
}

#[test]
fn rollouts_look_at_registered_devices_that_poll_and_at_no_others() {
    let mut bench = Bench::new();
    bench.rig.context.rollouts.want(true);
    let _of_the_start = bench.rig.context.take_rollout_updates();
    let stranger = DeviceId::new("nobody").expect("an id");
    for (device, expect) in [(device(), 1), (stranger, 0)] {
        let polled = bench.rig.ask(|reply| CommandInput::Poll { device, number: None, reply }.into());
        assert_eq!((polled.is_ok(), bench.rig.context.take_rollout_updates().len()), (expect == 1, expect));
    }
}

#[test]
fn a_poll_that_waits_is_answered_by_the_next_command() {
    let mut bench = Bench::new();
    let (reply, mut given) = crate::kernel::reply::Reply::new();
    bench.rig.step(vec![CommandInput::Poll { device: device(), number: Some(1), reply }.into()]);
    assert!(given.try_recv().is_err());
    let id = bench.send(plain());
    let given = given.try_recv().expect("answered").expect("known").expect("a command");
    assert_eq!(given.id, id);
    bench.rig.pass(ACK_TIMEOUT);
    assert_eq!(bench.status(id), (CommandStatus::Published, 1), "nobody waits any more");
}

#[test]
fn a_device_that_polls_too_often_at_once_sends_its_oldest_poll_home() {
    let mut bench = Bench::new();
    let mut answers = Vec::new();
    for number in 0..5 {
        let (reply, answer) = crate::kernel::reply::Reply::new();
        bench.rig.step(vec![CommandInput::Poll { device: device(), number: Some(number), reply }.into()]);
        answers.push(answer);
    }
    assert_eq!(answers[0].try_recv(), Ok(Ok(None)));
    assert!(answers[1..].iter_mut().all(|answer| answer.try_recv().is_err()));
}
