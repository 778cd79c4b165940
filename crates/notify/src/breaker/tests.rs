//! The rule, fed with attempts one after the other.

use base::{ClientId, Incarnation};
use engine::records::AttemptError;

use super::*;

const PAUSE_MS: i64 = 30_000;

fn breakers() -> Breakers {
    Breakers::new(Duration::from_millis(PAUSE_MS as u64))
}

fn client(incarnation: u64) -> Arc<Client> {
    Arc::new(Client {
        id: ClientId::new(&format!("c{incarnation}")).expect("an id"),
        incarnation: Incarnation(incarnation),
        name: String::new(),
        url: String::new(),
        secret: Vec::new(),
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(0),
    })
}

fn status(code: u16) -> AttemptOutcome {
    AttemptOutcome::Status { code, retry_after: None }
}

/// Makes an attempt at notification `number`.
fn tried(
    breakers: &mut Breakers,
    to: &Arc<Client>,
    number: u32,
    at: i64,
    answer: AttemptOutcome,
) -> Option<BreakerEvent> {
    let delivery = EntityId { routing: 0, at: Timestamp(0), number, tag: 0 };
    breakers.report(AttemptReport { to: Arc::clone(to), delivery, at: Timestamp(at), answer })
}

/// Lets attempts fail, at each of so many notifications in turn; whether the breaker is open then.
fn opens_after(attempts: u32, notifications: u32, answer: AttemptOutcome) -> bool {
    let (mut breakers, client) = (breakers(), client(1));
    for attempt in 0..attempts {
        tried(&mut breakers, &client, attempt % notifications, 0, answer);
    }
    assert_eq!(breakers.open(), usize::from(breakers.state(&client) != BreakerState::Closed));
    breakers.open() == 1
}

/// A breaker that is open, its latest attempt begun at `at`.
fn opened(client: &Arc<Client>, at: i64) -> Breakers {
    let mut breakers = breakers();
    let events: Vec<BreakerEvent> = (0..FAILED_IN_A_ROW)
        .filter_map(|number| tried(&mut breakers, client, number, at, status(500)))
        .collect();
    assert!(matches!(events[..], [BreakerEvent::Opened { failed: FAILED_IN_A_ROW, .. }]), "{events:?}");
    breakers
}

#[test]
fn it_opens_after_enough_failures_at_enough_notifications() {
    for (attempts, notifications, expect) in
        [(19, 19, false), (20, 20, true), (20, 5, true), (20, 4, false), (1_000, 4, false)]
    {
        let found = opens_after(attempts, notifications, status(503));
        assert_eq!(found, expect, "{attempts} attempts at {notifications} notifications");
    }
}

#[test]
fn whatever_is_no_success_is_a_failure_but_for_410_and_what_was_not_sent() {
    for (answer, expect) in [
        (status(199), true),
        (status(302), true),
        (status(404), true),
        (status(429), true),
        (status(500), true),
        (AttemptOutcome::Error(AttemptError::TimedOut), true),
        (AttemptOutcome::Error(AttemptError::ConnectFailed), true),
        (status(410), false),
        (AttemptOutcome::Withheld, false),
        (status(200), false),
        (status(299), false),
    ] {
        assert_eq!(opens_after(100, 100, answer), expect, "{answer:?}");
    }
}

#[test]
fn one_success_among_failures_begins_the_count_anew() {
    let (mut breakers, client) = (breakers(), client(1));
    for number in 0..200 {
        let answer = status(if number % FAILED_IN_A_ROW == 0 { 204 } else { 500 });
        assert!(tried(&mut breakers, &client, number, 0, answer).is_none());
    }
    assert_eq!(breakers.open(), 0);
}

#[test]
fn a_410_among_failures_neither_counts_nor_begins_anew() {
    let (mut breakers, client) = (breakers(), client(1));
    for number in 0..FAILED_IN_A_ROW - 1 {
        tried(&mut breakers, &client, number, 0, status(500));
        tried(&mut breakers, &client, number, 0, status(410));
    }
    assert_eq!(breakers.open(), 0);
    assert!(tried(&mut breakers, &client, 0, 0, status(500)).is_some());
}

#[test]
fn while_it_is_open_each_attempt_waits_for_the_latest_one() {
    let client = client(1);
    let mut breakers = opened(&client, 1_000);
    let next_at = |breakers: &Breakers| match breakers.state(&client) {
        BreakerState::Open { next_at } => next_at.0,
        BreakerState::Closed => panic!("it is open"),
    };
    assert_eq!(next_at(&breakers), 1_000 + PAUSE_MS);
    assert!(tried(&mut breakers, &client, 0, 40_000, status(500)).is_none(), "it is told once");
    assert_eq!(next_at(&breakers), 40_000 + PAUSE_MS);
    tried(&mut breakers, &client, 0, 2_000, status(500));
    assert_eq!(next_at(&breakers), 40_000 + PAUSE_MS, "one that began earlier and took longer");
}

#[test]
fn a_success_closes_it_and_nothing_is_kept() {
    let client = client(1);
    let mut breakers = opened(&client, 0);
    let event = tried(&mut breakers, &client, 77, 0, status(200));
    assert!(matches!(event, Some(BreakerEvent::Closed { why: CloseReason::Delivered, .. })), "{event:?}");
    assert_eq!(
        (breakers.state(&client), breakers.open(), breakers.clients()),
        (BreakerState::Closed, 0, vec![])
    );
}

#[test]
fn another_version_of_the_client_begins_anew() {
    let old = client(1);
    let mut breakers = opened(&old, 0);
    assert!(breakers.know(&old).is_none());
    let new = client(1);
    assert_eq!(breakers.state(&new), BreakerState::Closed);
    assert!(matches!(breakers.know(&new), Some(BreakerEvent::Closed { why: CloseReason::Changed, .. })));
    assert_eq!(breakers.open(), 0);
}

#[test]
fn one_client_does_not_open_the_breaker_of_another() {
    let (one, other) = (client(1), client(2));
    let mut breakers = opened(&one, 0);
    for number in 0..FAILED_IN_A_ROW - 1 {
        tried(&mut breakers, &other, number, 0, status(500));
    }
    assert_eq!((breakers.state(&other), breakers.open()), (BreakerState::Closed, 1));
}

#[test]
fn a_client_that_never_failed_costs_nothing() {
    let (mut breakers, client) = (breakers(), client(1));
    for number in 0..100 {
        tried(&mut breakers, &client, number, 0, status(200));
    }
    assert_eq!(breakers.clients(), vec![]);
}
