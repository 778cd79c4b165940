//! The bodies of notifications that failed for good: no job is left to carry them, only their pairs
//! name them.

use super::*;

/// What [`told`] has to say fails for good; its body stays, to be sent again by hand.
fn failed() -> Vec<Op> {
    let pair = Pair {
        slot: SLOT,
        client: CLIENT,
        untold: vec![EventKind::Changed],
        previous: None,
        skipped: 1,
        pending: None,
        in_flight: None,
        failed: Some(records::Waiting { delivery: id(1), attempts: 1 }),
    };
    vec![
        Op::DeleteJob(JOB),
        Op::PutJobBody(Pair::body_of_failed(id(1)), Arc::from(&b"{}"[..])),
        Op::PutPair(Box::new(pair)),
    ]
}

fn unlinked() -> Vec<Op> {
    vec![Op::DeleteJob(Pair::body_of_failed(id(1))), Op::DeletePair(SLOT, CLIENT)]
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
