//! Bytes that earlier builds wrote are read as what they meant then.

use std::sync::Arc;

use base::{DeviceId, EntityId};
use records::{
    AliasKey, Attempt, AttemptDetail, AttemptError, AttemptTimings, AttendedReadings, DeliveryKey,
    DeviceProfile, GroupKey, HeadState, JobClock, JobHead, JobId, JobTerms, LeaseHolder, PaceOverride,
    ParkedJob, ParkedKey, Parking, PickClock, PickMinute, Process, QueueKey, Recurrence, RecurrenceRule,
    Starts, Successor, TaskRecord, TokenPicks,
};

use super::*;

/// A waiting job of which nothing else is known.
fn plain() -> JobHead {
    JobHead {
        id: JobId([9; 16]),
        queue: QueueKey(7),
        number: 8,
        run_at: Timestamp(5),
        visible_at: Timestamp(6),
        attempt: 1,
        tries: 3,
        state: HeadState::Waiting,
        alias: None,
        terms: JobTerms::default(),
        successor: None,
    }
}

/// Version, flags, id, queue, number, time, what it is later, attempts, tries.
fn plain_in_version(version: u8, flags: u8) -> Vec<u8> {
    let mut bytes = vec![version, flags];
    bytes.extend([9; 16]);
    bytes.extend([7, 8, 10, 2, 1, 3]);
    bytes
}

/// A lease of 300 of process 5, an alias, and a successor after the run.
fn reserved_in_version_1() -> Vec<u8> {
    let mut bytes = plain_in_version(1, 0b1101);
    bytes.extend([0xac, 0x02, 5]);
    bytes.extend([6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([7; 16]);
    bytes.extend([9, 20, 3, 1]);
    bytes
}

#[test]
fn a_job_of_version_1_is_one_without_terms() {
    assert_eq!(JobHead::from_row(&plain_in_version(1, 0)), Ok(plain()));
    let expect = JobHead {
        state: HeadState::Reserved { lease: 300, holder: LeaseHolder::Own(Process(5)) },
        alias: Some(AliasKey(6 | 1 << 120)),
        successor: Some(Box::new(Successor {
            id: JobId([7; 16]),
            number: 9,
            run_at: Timestamp(10),
            tries: 3,
            terms: JobTerms::default(),
            starts: Starts::AfterRun,
        })),
        ..plain()
    };
    assert_eq!(JobHead::from_row(&reserved_in_version_1()), Ok(expect));
}

#[test]
fn what_version_1_could_not_say_is_none_of_its_bytes() {
    let mut with_terms = plain_in_version(1, 0b1_0000);
    with_terms.push(1);
    assert!(matches!(JobHead::from_row(&with_terms), Err(CodecError::Invalid { what: "a job", .. })));
    with_terms[0] = 2;
    let terms = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
    assert_eq!(JobHead::from_row(&with_terms), Ok(JobHead { terms, ..plain() }));
    let mut successor_with_terms = reserved_in_version_1();
    *successor_with_terms.last_mut().expect("its start") = 0b11;
    successor_with_terms.push(1);
    let refused = JobHead::from_row(&successor_with_terms);
    assert!(matches!(refused, Err(CodecError::Invalid { what: "a successor", .. })), "{refused:?}");
    successor_with_terms[0] = 2;
    assert!(JobHead::from_row(&successor_with_terms).is_ok());
}

#[test]
fn a_plain_job_takes_no_more_than_it_did() {
    assert_eq!(plain().to_row(), plain_in_version(2, 0));
}

#[test]
fn terms_survive_whatever_holds() {
    let recurrences = [
        None,
        Some(Recurrence { rule: RecurrenceRule::Calendar, left: None, run: 1, ttl_ms: None }),
        Some(Recurrence {
            rule: RecurrenceRule::Every(1),
            left: Some(u32::MAX),
            run: u64::MAX,
            ttl_ms: Some(0),
        }),
    ];
    for recurrence in recurrences {
        for clock in [JobClock::Engine, JobClock::Wall] {
            for expires_at in [None, Some(Timestamp(i64::MIN)), Some(Timestamp::MAX)] {
                for group in [None, Some(GroupKey(0)), Some(GroupKey(u64::MAX))] {
                    let terms = JobTerms { clock, expires_at, group, recurrence };
                    let head = JobHead { terms, ..plain() };
                    assert_eq!(JobHead::from_row(&head.to_row()), Ok(head.clone()));
                    let leads = group.map(|_| Parking::Head);
                    for parking in [Parking::Time, Parking::Worker].into_iter().chain(leads) {
                        for body in [None, Some(Arc::default()), Some(Arc::from(*b"a body"))] {
                            let job = ParkedJob { head: head.clone(), parking, body };
                            assert_eq!(ParkedKey::from_row(&job.key().to_row()), Ok(job.key()));
                            assert_eq!(ParkedJob::from_row(&job.to_row()), Ok(job));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_with_a_worker_is_not_parked() {
    let mut reserved = vec![1, 0];
    reserved.extend(reserved_in_version_1());
    assert!(matches!(ParkedJob::from_row(&reserved), Err(CodecError::Invalid { what: "a parked job", .. })));
}

#[test]
fn a_parked_job_of_version_1_is_no_head_of_a_group() {
    let head = JobHead { attempt: 0, ..plain() };
    for (byte, parking) in [(0, Parking::Time), (1, Parking::Worker)] {
        let job = ParkedJob { head: head.clone(), parking, body: None };
        let row = [&[1, byte], &head.to_row()[..]].concat();
        assert_eq!(ParkedJob::from_row(&row), Ok(job.clone()));
        let row = [&[2, byte], &head.to_row()[..]].concat();
        assert_eq!(ParkedJob::from_row(&row), Ok(job.clone()), "version 2 has bodies elsewhere alone");
        let mut key = job.key().to_row();
        key[0] = 1;
        assert_eq!(ParkedKey::from_row(&key), Ok(job.key()));
    }
    let row = |version| [&[version, 2], &head.to_row()[..]].concat();
    assert!(ParkedJob::from_row(&row(1)).is_err(), "version 1 knew none");
    assert!(ParkedJob::from_row(&row(2)).is_err(), "a job without a group leads none");
}

/// Batch 1 at 2,000, numbers from 3 to 9.
const HEAD: [u8; 18] = [1, 0xa0, 0x1f, 2, 2, 4, 6, 8, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0];

fn head() -> PartitionHead {
    PartitionHead {
        seq: 1,
        now: Timestamp(2_000),
        stamp: Timestamp(2_001),
        attended: AttendedReadings { ways: [1, 2, 3].map(Attended), every: Attended(4) },
        next_slot: 3,
        next_incarnation: 4,
        next_event: 5,
        next_delivery: 6,
        next_quarantined: 9,
        next_command: 0,
        next_timeline: 0,
        next_fence: 0,
        next_job: 7,
        next_lease: 8,
        next_dead: 0,
        kept_from: KeptFrom::EVER,
    }
}

#[test]
fn a_head_of_version_1_had_no_dead_letters() {
    let row = [&[1], &HEAD[..]].concat();
    assert_eq!(PartitionHead::from_row(&row), Ok(head()));
    let row = [&[2], &HEAD[..], &[0xac, 0x02]].concat();
    assert_eq!(PartitionHead::from_row(&row), Ok(PartitionHead { next_dead: 300, ..head() }));
}

#[test]
fn a_head_of_version_2_had_no_commands() {
    let row = [&[2], &HEAD[..], &[7]].concat();
    assert_eq!(PartitionHead::from_row(&row), Ok(PartitionHead { next_dead: 7, ..head() }));
    let row = [&[3], &HEAD[..], &[7, 0xac, 0x02, 8]].concat();
    let expect = PartitionHead { next_dead: 7, next_command: 300, next_timeline: 8, ..head() };
    assert_eq!(PartitionHead::from_row(&row), Ok(expect));
}

#[test]
fn a_head_of_version_3_had_no_locks() {
    let known = PartitionHead { next_dead: 7, next_command: 300, next_timeline: 8, ..head() };
    let row = [&[3], &HEAD[..], &[7, 0xac, 0x02, 8]].concat();
    assert_eq!(PartitionHead::from_row(&row), Ok(known.clone()));
    let row = [&[4], &HEAD[..], &[7, 0xac, 0x02, 8, 9]].concat();
    let expect = PartitionHead { next_fence: 9, ..known };
    assert_eq!(PartitionHead::from_row(&row), Ok(expect.clone()));
    assert_eq!(expect.to_row(), row);
}

#[test]
fn a_batch_of_version_1_is_read() {
    let job = JobHead { visible_at: Timestamp(6), ..plain() };
    let mut frame = [&[1, 2, 0, 1], &HEAD[..], &[2, 10]].concat();
    frame.extend(plain_in_version(1, 0));
    frame.push(11);
    frame.extend([9; 16]);
    let ops = vec![Op::PutJob(Box::new(job)), Op::DeleteJob(JobId([9; 16]))];
    assert_eq!(decode_batch(&frame), Ok(Batch { partition: PartitionId(2), head: head(), ops }));
}

/// A stored attempt with this error, in this version. Its other fields are a delivery of time 1 and
/// number 2, number 1, time 3, 4 ms.
fn failed_in_version(version: u8, error: u8) -> Vec<u8> {
    vec![version, 2, 2, 1, 6, 4, 0, 1, error]
}

#[test]
fn an_attempt_of_version_1_does_not_tell_the_causes_of_tls_apart() {
    let attempt = Attempt {
        delivery: DeliveryKey { at: Timestamp(1), number: 2 },
        number: 1,
        at: Timestamp(3),
        duration_ms: 4,
        status_code: None,
        error: Some(AttemptError::TlsFailed),
        detail: AttemptDetail::default(),
    };
    assert_eq!(Attempt::from_row(&failed_in_version(1, 4)), Ok(attempt.clone()));
    let refused = Attempt::from_row(&failed_in_version(1, 7));
    assert!(matches!(refused, Err(CodecError::Invalid { what: "an error", .. })), "{refused:?}");
    for (number, error) in (0..).zip(AttemptError::ALL) {
        let attempt = Attempt { error: Some(error), ..attempt.clone() };
        assert_eq!(Attempt::from_row(&failed_in_version(2, number)), Ok(attempt.clone()), "{error:?}");
        assert_eq!(Attempt::from_row(&attempt.to_row()), Ok(attempt));
    }
}

#[test]
fn an_attempt_of_version_3_holds_what_it_saw_of_its_receiver() {
    let timings = |reused| AttemptTimings { first_byte_ms: Some(7), reused, ..AttemptTimings::default() };
    let attempt = |detail| Attempt {
        delivery: DeliveryKey { at: Timestamp(1), number: 2 },
        number: 1,
        at: Timestamp(3),
        duration_ms: 4,
        status_code: Some(5),
        error: None,
        detail,
    };
    let plain = [3, 2, 2, 1, 6, 4, 1, 5, 0];
    let whole = AttemptDetail {
        timings: AttemptTimings { dns_ms: Some(1), connect_ms: Some(2), tls_ms: Some(3), ..timings(false) },
        answer: Some(Box::from(&b"no"[..])),
        certificate_bound: Some(Timestamp(9)),
    };
    for (detail, expect) in [
        (AttemptDetail::default(), &[0][..]),
        (AttemptDetail { timings: timings(true), ..AttemptDetail::default() }, &[0b100_1000, 7]),
        (whole, &[0b11_1111, 1, 2, 3, 7, 2, b'n', b'o', 18]),
    ] {
        let attempt = attempt(detail);
        let row = [&plain[..], expect].concat();
        assert_eq!(attempt.to_row(), row);
        assert_eq!(Attempt::from_row(&row), Ok(attempt));
    }
    let unknown = Attempt::from_row(&[&plain[..], &[1 << 7]].concat());
    assert!(matches!(unknown, Err(CodecError::Invalid { .. })), "{unknown:?}");
}

#[test]
fn a_device_of_an_earlier_version_is_read_and_has_no_pace() {
    let in_version = |version: u8, id: &str| {
        let mut bytes = vec![version, id.len() as u8];
        bytes.extend(id.as_bytes());
        bytes.extend([1, 2, 4]);
        bytes.extend(b"lock");
        bytes.extend([0, 0, 0, 6, 8, 0]);
        bytes
    };
    let profile = |id: &str| DeviceProfile {
        id: DeviceId::new(id).expect("an id"),
        incarnation: Incarnation(1),
        slot: DeviceSlot(2),
        kind: Kind::lock(),
        address: None,
        labels: Vec::new(),
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: Timestamp(3),
        expected_from: Attended(4),
        clients: Vec::new(),
    };
    assert_eq!(DeviceProfile::from_row(&in_version(1, "0xA")), Ok(profile("0xA")));
    assert_eq!(DeviceProfile::from_row(&in_version(2, "00:1B")), Ok(profile("00:1B")));
    for (pace, stored) in [
        (PaceOverride::default(), vec![0, 0]),
        (PaceOverride { in_flight: Some(3), gap_ms: None }, vec![1, 3, 0]),
        (PaceOverride { in_flight: None, gap_ms: Some(300) }, vec![0, 1, 0xac, 2]),
    ] {
        let paced = DeviceProfile { pace, ..profile("00:1B") };
        let bytes = [in_version(3, "00:1B"), stored].concat();
        assert_eq!(paced.to_row(), bytes);
        assert_eq!(DeviceProfile::from_row(&bytes), Ok(paced));
    }
}

#[test]
fn a_clock_of_picks_of_an_earlier_version_knows_of_no_token() {
    let clock = PickClock {
        at: Timestamp(4),
        reached: 300,
        punishment_milli: 5,
        minutes: vec![PickMinute { minute: 7, tasks: 1, picked: 2 }],
        ..PickClock::default()
    };
    let in_version = |version: u8| vec![version, 8, 0xac, 2, 5, 1, 7, 1, 2];
    assert_eq!(PickClock::from_row(&in_version(1)), Ok(clock.clone()));
    let token_picks = vec![TokenPicks { token: "lab".into(), picks: 300 }];
    let with_tokens = PickClock { token_hour: 9, token_picks, ..clock };
    let bytes = [in_version(2), vec![9, 1, 3, b'l', b'a', b'b', 0xac, 2]].concat();
    assert_eq!(with_tokens.to_row(), bytes);
    assert_eq!(PickClock::from_row(&bytes), Ok(with_tokens));
}

#[test]
fn of_a_task_of_an_earlier_version_no_request_is_known() {
    let task = TaskRecord {
        id: EntityId::from_bytes(&[9; EntityId::BYTES]),
        incarnation: Incarnation(1),
        terms: Incarnation(2),
        created_at: Timestamp(3),
        wanted: 4,
        deadline_ms: 300,
        slot: None,
        request: None,
    };
    let in_version =
        |version: u8| [&[version][..], &[9; EntityId::BYTES], &[1, 2, 6, 4, 0xac, 2, 0]].concat();
    assert_eq!(TaskRecord::from_row(&in_version(1)), Ok(task.clone()));
    let asked = TaskRecord { request: Some(7), ..task };
    let bytes = [in_version(2), vec![1, 7], vec![0; 15]].concat();
    assert_eq!(asked.to_row(), bytes);
    assert_eq!(TaskRecord::from_row(&bytes), Ok(asked));
}
