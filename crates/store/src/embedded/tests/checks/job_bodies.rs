//! Jobs and what they are for, and the bodies of notifications that failed for good. No job is left
//! to carry these; only their notification states name them.

use records::{
    Command, CommandKey, CommandState, CommandStatus, FinishedCommand, JobPurpose, OutcomeLane, OutcomeOf,
};

use super::*;
use crate::conformance::command;

/// What [`told`] has to say fails for good; its body stays, to be sent again by hand.
fn failed() -> Vec<Op> {
    let state = NotificationState {
        slot: SLOT,
        client: CLIENT,
        untold: vec![EventKind::Changed],
        previous: None,
        skipped: 1,
        pending: None,
        in_flight: None,
        failed: Some(records::PendingDelivery { delivery: id(1), attempts: 1 }),
    };
    vec![
        Op::DeleteJob(JOB),
        Op::PutJobBody(NotificationState::body_of_failed(id(1)), Arc::from(&b"{}"[..])),
        Op::PutNotificationState(Box::new(state)),
    ]
}

fn unlinked() -> Vec<Op> {
    vec![Op::DeleteJob(NotificationState::body_of_failed(id(1))), Op::DeleteNotificationState(SLOT, CLIENT)]
}

fn bodies(directory: &Path) -> u64 {
    let (found, counts) = check(directory);
    assert_eq!(found, Vec::<String>::new());
    counts["job_bodies"]
}

/// Whether it is in the tables is looked up in a filter, which every start makes anew.
#[test]
fn the_body_of_what_failed_for_good_goes_after_a_start() {
    let directory = directory();
    let before = bodies(directory.path());
    put(&open_real(directory.path()).expect("opens"), PARTITION, 4, failed());
    let store = open_real(directory.path()).expect("opens");
    store.checkpoint_all().expect("writes");
    drop(store);
    assert_eq!(bodies(directory.path()), before, "it has taken the place of that of its job");
    put(&open_real(directory.path()).expect("opens"), PARTITION, 5, unlinked());
    assert_eq!(bodies(directory.path()), before - 1);
}

/// A job in this line, after a command that tells of its end and one that does not.
fn check_of_job(line: QueueKey, alias: AliasKey) -> Vec<String> {
    let told = command(SLOT.0, 1_500, 7);
    let silent = Command { notify: None, ..command(SLOT.0, 1_500, 8) };
    let finished = |command: &Command| {
        let (status, finished_at) = (CommandStatus::Acknowledged, Some(Timestamp(1_600)));
        let state = CommandState { status, finished_at, tries: 1, ..CommandState::WAITING };
        let place = FinishedCommand::of(command, &state).expect("it has ended");
        let key = CommandKey::from(command.id);
        [Op::PutCommandState(key, Box::new(state)), Op::PutFinishedCommand(place)]
    };
    let job = JobHead {
        id: JobId([8; 16]),
        queue: line,
        number: 2,
        run_at: Timestamp(1_600),
        visible_at: Timestamp(1_600),
        attempt: 0,
        tries: 10,
        state: HeadState::Waiting,
        alias: Some(alias),
        terms: JobTerms::default(),
        successor: None,
    };
    let mut ops = vec![Op::PutJob(Box::new(job))];
    for command in [told, silent] {
        ops.extend(finished(&command));
        ops.push(Op::PutCommand(Box::new(command)));
    }
    let directory = directory();
    put(&open_real(directory.path()).expect("opens"), PARTITION, 4, ops);
    check(directory.path()).0
}

/// The outcome of the command with this number, given then.
fn outcome(at: i64, number: u32, lane: OutcomeLane) -> (QueueKey, AliasKey) {
    let key = CommandKey { at: Timestamp(at), number };
    let purpose = JobPurpose::Outcome { lane, key, of: OutcomeOf::End };
    (purpose.line().key(), purpose.alias())
}

#[test]
fn a_job_agrees_with_what_it_is_for() {
    let receiver = command(SLOT.0, 1_500, 7).notify.expect("it names one");
    let lane = OutcomeLane::of(&receiver);
    let nobody = JobPurpose::Notification(DeviceSlot(1), CLIENT);
    for ((line, alias), expect) in [
        (outcome(1_500, 7, lane), None),
        // its command went with its device, or with its age
        (outcome(1_400, 7, lane), None),
        (outcome(2_001, 7, lane), Some("was not given yet")),
        (outcome(1_500, 7, OutcomeLane(3)), Some("has another lane")),
        (outcome(1_500, 8, lane), Some("has no receiver")),
        ((nobody.line().key(), nobody.alias()), Some("its pair of device and client is missing")),
        ((QueueKey::of_purpose(2, 1), AliasKey(0)), Some("its purpose is unknown")),
    ] {
        let found = check_of_job(line, alias);
        let told = |text: &str| found.len() == 1 && found[0].contains(text) && found[0].contains("job_heads");
        assert!(expect.map_or(found.is_empty(), told), "{expect:?}: {found:?}");
    }
}
