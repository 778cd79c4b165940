//! Appends with a key: a repeat appends nothing, as long as the messages of the first are there.

use records::AnswerKey;

use super::super::idempotency::ANSWER_BYTES;
use super::*;
use crate::kernel::idempotency::IdempotencyKey;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// What an append of these messages under a key, with that body, comes to.
fn append_once(
    bench: &mut Bench,
    (key, body): (u128, u128),
    messages: &[NewMessage],
) -> Result<Vec<AppendOutcome>, &'static str> {
    let (reply, mut answer) = Reply::new();
    let idempotency = Some(IdempotencyKey { key: AnswerKey(key), body });
    let call = AppendCall { idempotency, ..AppendCall::new(name("orders"), messages.to_vec(), reply) };
    bench.settle(vec![StreamsInput::Append(Box::new(call))]);
    let answered: Answered<Vec<AppendOutcome>> = answer.try_recv().expect("it is answered");
    answered.map_err(|refused| refused.code)
}

#[test]
fn a_repeat_appends_nothing_and_is_answered_like_the_first() {
    for mode in [SaveMode::Sync, SaveMode::Periodic, SaveMode::Memory] {
        let mut bench = Bench::new();
        bench.set_mode("orders", mode);
        bench.append("orders", vec![from_source("a", "1")]);
        let messages = [message("b"), from_source("a", "1"), message("c")];
        let first = append_once(&mut bench, (7, 1), &messages);
        let duplicate = AppendOutcome::Duplicate(Box::new(messages[1].clone()));
        let expect = vec![AppendOutcome::Appended(2), duplicate, AppendOutcome::Appended(3)];
        assert_eq!(first, Ok(expect), "{mode:?}");
        for is_restarted in [false, true] {
            if is_restarted {
                bench.close();
                bench.load();
            }
            assert_eq!(append_once(&mut bench, (7, 1), &messages), first, "{mode:?} {is_restarted}");
            let other = append_once(&mut bench, (7, 2), &messages);
            assert_eq!(other, Err("idempotency_key_reused"), "{mode:?} {is_restarted}");
        }
        assert_eq!(bench.all("orders").len(), 3, "{mode:?}");
    }
}

#[test]
fn a_key_is_lost_with_its_messages() {
    for mode in [SaveMode::Periodic, SaveMode::Memory] {
        let mut bench = Bench::new();
        bench.set_mode("orders", mode);
        let messages = [message("a")];
        assert_eq!(append_once(&mut bench, (7, 1), &messages), Ok(vec![AppendOutcome::Appended(1)]));
        bench.load();
        assert_eq!(bench.all("orders"), [], "{mode:?}: a crash lost it");
        let again = append_once(&mut bench, (7, 1), &messages);
        assert!(matches!(again.as_deref(), Ok([AppendOutcome::Appended(_)])), "{mode:?}: {again:?}");
        bench.close();
        bench.load();
        assert_eq!(append_once(&mut bench, (7, 1), &messages), again, "{mode:?}");
        assert_eq!(bench.all("orders").len(), 1, "{mode:?}");
    }
}

#[test]
fn what_a_crash_leaves_has_its_key() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Periodic);
    let messages = [message("a")];
    let first = append_once(&mut bench, (7, 1), &messages);
    bench.pass(Duration::from_secs(1));
    bench.load();
    assert_eq!(bench.all("orders").len(), 1, "it was saved");
    assert_eq!(append_once(&mut bench, (7, 1), &messages), first);
    assert_eq!(bench.all("orders").len(), 1);
}

#[test]
fn what_waits_under_keys_counts_until_it_is_saved() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Periodic);
    let before = bench.machine().unsaved_id_bytes;
    for key in 1..=10 {
        assert!(append_once(&mut bench, (key, 1), &[message("a")]).is_ok());
        assert!(bench.machine().unsaved_id_bytes >= before + key as usize * ANSWER_BYTES);
    }
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.machine().unsaved_id_bytes, before);
}

#[test]
fn a_stream_that_is_made_again_does_not_know_the_key() {
    let mut bench = Bench::new();
    let messages = [message("a")];
    bench.append_new("orders", &["x"]);
    assert_eq!(append_once(&mut bench, (7, 1), &messages), Ok(vec![AppendOutcome::Appended(2)]));
    assert_eq!(bench.delete("orders"), Ok(()));
    assert_eq!(append_once(&mut bench, (7, 1), &messages), Ok(vec![AppendOutcome::Appended(1)]));
    assert_eq!(bench.all("orders").len(), 1);
}

#[test]
fn a_key_is_forgotten_after_a_day() {
    let mut bench = Bench::new();
    let messages = [message("a")];
    let kept = |bench: &Bench| {
        let view = bench.store.view(id()).expect("opens");
        view.answers_given(None, Timestamp::MAX, 9).expect("reads").len()
    };
    let first = append_once(&mut bench, (7, 1), &messages);
    assert_eq!(kept(&bench), 1);
    bench.pass(DAY / 2);
    assert_eq!(append_once(&mut bench, (7, 1), &messages), first);
    bench.pass(DAY / 2);
    assert_eq!(kept(&bench), 0);
    assert_eq!(append_once(&mut bench, (7, 1), &messages), Ok(vec![AppendOutcome::Appended(2)]));
}
