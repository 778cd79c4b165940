//! The save modes: when callers are answered, what readers see, and what a crash leaves.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn wait_answers_with_the_save_and_shows_nothing_before() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Wait);
    let mut first = bench.begin("orders", vec![message("a")], None);
    bench.pass(SECOND / 2);
    let mut second = bench.begin("orders", vec![message("a")], None);
    assert!(first.try_recv().is_err() && second.try_recv().is_err());
    assert_eq!(bench.all("orders"), []);
    bench.pass(SECOND / 2);
    let ids = |answer: &mut oneshot::Receiver<Answered<Vec<AppendOutcome>>>| {
        answer.try_recv().expect("it is answered").expect("appended")
    };
    assert_eq!(ids(&mut first), [AppendOutcome::Appended(1)]);
    assert_eq!(ids(&mut second), [AppendOutcome::Appended(2)]);
    bench.load();
    assert_eq!(bench.all("orders"), of(1..=2, "a"));
}

#[test]
fn a_duplicate_of_what_is_not_saved_waits_for_its_save() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Wait);
    let mut first = bench.begin("orders", vec![from_source("a", "1")], None);
    let mut again = bench.begin("orders", vec![from_source("a", "1")], None);
    assert!(again.try_recv().is_err(), "a crash may still lose the first");
    bench.pass(SECOND);
    assert!(first.try_recv().is_ok() && again.try_recv().is_ok());
    let mut later = bench.begin("orders", vec![from_source("a", "1")], None);
    assert!(later.try_recv().is_ok(), "there is nothing to wait for");
}

#[test]
fn periodic_answers_at_once_and_loses_only_the_end() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Periodic);
    assert_eq!(bench.append_new("orders", &["a", "a"]), [1, 2]);
    bench.pass(SECOND);
    assert_eq!(bench.append_new("orders", &["b"]), [3]);
    assert_eq!(bench.all("orders").len(), 3, "readers see what was answered");
    bench.load();
    assert_eq!(bench.all("orders"), of(1..=2, "a"));
    let next = bench.append_new("orders", &["c"])[0];
    assert!(next > 3, "3 was given");
    bench.pass(SECOND);
    bench.load();
    assert_eq!(bench.all("orders"), [of(1..=2, "a"), of(next..=next, "c")].concat());
    let page = bench.read("orders", 2).expect("is read");
    assert_eq!((page.items.len(), page.next_after, page.skipped), (1, next, 0));
}

#[test]
fn memory_saves_with_the_block_and_at_a_clean_stop() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| {
        settings.save = SaveMode::Memory;
        settings.block.messages = 3;
    });
    assert_eq!(bench.append_new("orders", &["a", "a"]), [1, 2]);
    bench.pass(SECOND * 10);
    bench.load();
    assert_eq!(bench.all("orders"), []);
    let first = bench.append_new("orders", &["b", "b", "b"])[0];
    bench.append_new("orders", &["c"]);
    bench.load();
    assert_eq!(bench.all("orders"), of(first..=first + 2, "b"), "the block that was full");
    let last = bench.append_new("orders", &["d"])[0];
    bench.close();
    bench.load();
    assert_eq!(bench.all("orders").last(), Some(&(last, "d".to_owned())));
    assert_eq!(bench.append_new("orders", &["e"]), [last + 1], "nothing was lost, so no id is left out");
}

#[test]
fn ids_are_reserved_before_they_are_answered() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Memory);
    bench.hold();
    let mut answer = bench.begin("orders", vec![message("a")], None);
    assert!(answer.try_recv().is_err(), "the reservation is being written");
    bench.write_held();
    assert!(answer.try_recv().is_ok());
    bench.hold();
    let mut answer = bench.begin("orders", vec![message("a")], None);
    assert!(answer.try_recv().is_ok(), "its id is reserved");
}

#[test]
fn another_mode_saves_what_the_mode_before_kept() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Memory);
    bench.append_new("orders", &["a"]);
    bench.set_mode("orders", SaveMode::Sync);
    bench.load();
    assert_eq!(bench.all("orders"), of(1..=1, "a"));
}

#[test]
fn more_than_may_wait_is_saved_early() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| {
        settings.save = SaveMode::Memory;
        settings.block.bytes = 64_000_000;
    });
    let large = "x".repeat(MEMORY / 2);
    for _ in 0..3 {
        bench.append_new("orders", &[&large]);
    }
    assert!(bench.machine().unsaved_bytes <= MEMORY, "{}", bench.machine().unsaved_bytes);
    bench.load();
    assert!(bench.all("orders").len() >= 2);
}

#[test]
fn an_append_whose_stream_is_deleted_is_to_be_repeated() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Wait);
    let mut waiting = bench.begin("orders", vec![message("a")], None);
    bench.delete("orders").expect("it is deleted");
    let refused = waiting.try_recv().expect("it is answered").expect_err("it is not saved");
    assert_eq!(refused.status, 503);
}
