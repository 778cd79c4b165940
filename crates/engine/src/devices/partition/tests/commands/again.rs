//! Commands that are tried anew by hand, and entries that are counted.

use super::*;

#[test]
fn a_command_that_is_called_off_does_not_go_out() {
    let mut bench = Bench::new();
    let id = bench.send(plain());
    bench.cancel(id).expect("called off");
    assert_eq!(bench.cancel(id).map_err(|problem| problem.code), Err("finished"));
    bench.connect(1);
    assert!(bench.carried().is_empty());
    assert_eq!(bench.rig.ask(|reply| CommandInput::Retry { id, reply }.into()), Ok(()));
    assert_eq!(bench.carried(), [id]);
}

#[test]
fn a_retried_command_keeps_its_time_and_gives_way_to_a_newer_one_of_its_key() {
    let mut bench = Bench::new();
    bench.connect(1);
    let key = || Some("door".to_owned());
    let not_before = Some(bench.rig.now().after(Duration::from_secs(60)));
    let first = bench.send(NewCommand { key: key(), not_before, ..plain() });
    let retry = |bench: &mut Bench, id| bench.rig.ask(|reply| CommandInput::Retry { id, reply }.into());
    bench.cancel(first).expect("called off");
    assert_eq!(retry(&mut bench, first), Ok(()));
    assert!(bench.carried().is_empty(), "its time has not come");
    bench.cancel(first).expect("called off");
    let second = bench.send(NewCommand { key: key(), not_before, ..plain() });
    let refused = retry(&mut bench, first).expect_err("a newer one waits");
    assert_eq!((refused.status, refused.code), (409, "superseded"));
    bench.cancel(second).expect("called off");
    assert_eq!(retry(&mut bench, first), Ok(()));
    assert_eq!(retry(&mut bench, second), Ok(()));
    assert_eq!(bench.status(first).0, CommandStatus::Superseded, "the older one gives way");
    bench.rig.pass(Duration::from_secs(60));
    assert_eq!(bench.carried(), [second]);
}

#[test]
fn a_command_whose_entry_is_wished_otherwise_is_not_tried_anew() {
    let mut bench = Bench::new();
    bench.connect(1);
    let retry = |bench: &mut Bench, id| {
        let retried = bench.rig.ask(|reply| CommandInput::Retry { id, reply }.into());
        retried.map_err(|problem: Problem| problem.code)
    };
    bench.desired_state(Some("1"));
    let first = bench.carried()[0];
    bench.cancel(first).expect("called off");
    assert_eq!(retry(&mut bench, first), Ok(()), "it is wished still");
    assert_eq!(bench.carried(), [first]);
    bench.cancel(first).expect("called off");
    bench.desired_state(Some("2"));
    let second = bench.carried()[0];
    assert_eq!(retry(&mut bench, first), Err("superseded"));
    bench.rig.say(DEVICE, answer(second, true));
    assert_eq!(retry(&mut bench, first), Err("superseded"));
    assert_eq!(retry(&mut bench, second), Err("not_retryable"));
    let two = || Some("2".to_owned());
    assert_eq!(bench.desired_states(), [(two(), two(), false)]);
}

#[test]
fn the_entries_of_a_device_are_counted_as_they_come_and_go() {
    let mut bench = Bench::new();
    bench.connect(1);
    let confirmed = |key: &str, value: Option<&str>| ReportContent::Confirmed {
        key: key.into(),
        value: value.map(Box::from),
    };
    let check = |bench: &Bench, expect: u16| {
        let devices = &bench.rig.partition.devices;
        let slot = devices.slot_of(&device()).expect("registered");
        assert_eq!(bench.rig.view().desired_states(slot).expect("readable").len(), usize::from(expect));
        let counted = devices.desired_state_count(slot);
        assert!(counted.is_none_or(|count| count == expect), "{counted:?}");
    };
    for (content, expect) in [
        (confirmed("a", Some("1")), 1),
        (confirmed("b", Some("1")), 2),
        (confirmed("b", Some("2")), 2),
        (confirmed("b", None), 1),
        (confirmed("b", None), 1),
    ] {
        bench.rig.say(DEVICE, content);
        check(&bench, expect);
    }
    bench.desired_state(Some("7"));
    check(&bench, 2);
    bench.desired_state(None);
    let last = *bench.carried().last().expect("it goes out");
    bench.rig.say(DEVICE, answer(last, true));
    let deleted = bench.carried();
    deleted.into_iter().for_each(|id| drop(bench.rig.say(DEVICE, answer(id, true))));
    check(&bench, 1);
}

#[test]
fn a_request_that_comes_again_is_answered_alike_and_keeps_no_second_payload() {
    use crate::AnswerForm;
    use crate::devices::input::Repeatable;
    use crate::kernel::idempotency::IdempotencyKey;

    fn write(made: &Result<TrackedCommand, Problem>) -> Arc<[u8]> {
        match made {
            Ok(sent) => {
                let TrackedCommand { command, state } = sent.as_given();
                let head = format!("{} {:?} ", command.id.number, state.expires_at);
                [head.as_bytes(), &*command.payload].concat().into()
            }
            Err(problem) => problem.code.as_bytes().into(),
        }
    }
    let mut bench = Bench::new();
    let idempotency = Some(IdempotencyKey { key: records::AnswerKey(7), body: 9 });
    let payload: Arc<[u8]> = Arc::from(vec![b'1'; 100_000]);
    let mut kept_bytes = Vec::new();
    let mut send = |bench: &mut Bench| {
        let ttl = Some(Duration::from_secs(60));
        let command = Box::new(NewCommand { payload: Arc::clone(&payload), ttl, ..plain() });
        let act = Repeatable::SendCommand(device(), command, AnswerForm { idempotency, write });
        let (reply, mut answer) = Reply::new();
        let ops = bench.rig.step(vec![DeviceInput::Repeatable { act, reply }]);
        kept_bytes.extend(ops.iter().filter_map(|op| match op {
            Op::PutAnswer(kept) => Some(kept.answer.len()),
            _ => None,
        }));
        answer.try_recv().expect("answered").expect("no other body")
    };
    let first = send(&mut bench);
    bench.rig.pass(Duration::from_secs(5));
    assert_eq!(send(&mut bench), first);
    bench.rig.delete(DEVICE).expect("deleted");
    assert_eq!(&*send(&mut bench), b"unknown_command");
    assert!(kept_bytes.len() == 1 && kept_bytes[0] < 100, "{kept_bytes:?}");
}

#[test]
fn a_request_that_was_refused_for_now_may_come_again() {
    use crate::AnswerForm;
    use crate::devices::input::Repeatable;
    use crate::kernel::idempotency::IdempotencyKey;
    use crate::settings::EngineSettings;

    fn write(made: &Result<TrackedCommand, Problem>) -> Arc<[u8]> {
        made.as_ref().map_or_else(|problem| problem.code, |_| "sent").as_bytes().into()
    }
    let mut bench = Bench::new();
    let usual = Arc::clone(&bench.rig.partition.settings);
    let send = |bench: &mut Bench, key, refusal: Option<u16>| {
        let mut settings = EngineSettings::clone(&usual);
        if let Some(status) = refusal {
            settings.check_payload = Arc::new(move |_, _| Err(Problem::new(status, "refused", "so it is")));
        }
        bench.rig.partition.settings = Arc::new(settings);
        let form =
            AnswerForm { idempotency: Some(IdempotencyKey { key: records::AnswerKey(key), body: 9 }), write };
        let act = Repeatable::SendCommand(device(), Box::new(plain()), form);
        bench.rig.ask(|reply| DeviceInput::Repeatable { act, reply }).expect("no other body").to_vec()
    };
    assert_eq!(send(&mut bench, 1, Some(503)), b"refused");
    assert_eq!(send(&mut bench, 1, None), b"sent", "it was the server's own matter");
    assert_eq!(send(&mut bench, 2, Some(422)), b"refused");
    assert_eq!(send(&mut bench, 2, None), b"refused", "that is the answer");
}
