//! Room for what is appended: on a disk that is nearly full, and of memory where very much is not
//! stored.

use ::streams::FreeSpace;

use super::*;

/// A stream of three stored blocks with two messages of a kilobyte each.
fn of_three_blocks(when_full: records::WhenFull) -> Bench {
    let mut bench = Bench::new();
    bench.set("orders", |settings| {
        settings.block.messages = 2;
        settings.when_full = when_full;
    });
    let text = "a".repeat(1_000);
    bench.append_new("orders", &[text.as_str(); 6]);
    assert_eq!(bench.work(), 3);
    bench
}

fn disk(bench: &mut Bench, room: FreeSpace) {
    bench.settle(vec![StreamsInput::Disk { room }]);
}

fn refusal(bench: &mut Bench, stream: &str, text: &str) -> Option<&'static str> {
    let answer = bench.begin(stream, vec![message(text)], None).try_recv().expect("it is answered");
    answer.err().map(|problem| problem.code)
}

fn ids(bench: &Bench) -> Vec<u64> {
    bench.all("orders").into_iter().map(|(id, _)| id).collect()
}

#[test]
fn on_a_disk_that_is_nearly_full_the_oldest_blocks_make_room() {
    let mut bench = of_three_blocks(records::WhenFull::DropOldest);
    disk(&mut bench, FreeSpace::Low);
    let text = "b".repeat(900);
    assert_eq!(refusal(&mut bench, "orders", &text), None);
    bench.work();
    assert_eq!((ids(&bench), bench.files()), (vec![3, 4, 5, 6, 7], 2));
    assert_eq!(refusal(&mut bench, "orders", &text), None);
    assert_eq!(ids(&bench), [3, 4, 5, 6, 7, 8], "the block that went had room for two");
    assert_eq!(refusal(&mut bench, "orders", &text), None);
    assert_eq!(ids(&bench), [5, 6, 7, 8, 9]);
    disk(&mut bench, FreeSpace::Enough);
    assert_eq!(refusal(&mut bench, "orders", &text), None);
    assert_eq!(ids(&bench), [5, 6, 7, 8, 9, 10]);
}

#[test]
fn on_a_disk_that_is_nearly_full_an_append_is_refused_where_nothing_may_go() {
    let mut bench = of_three_blocks(records::WhenFull::Reject);
    disk(&mut bench, FreeSpace::Low);
    assert_eq!(refusal(&mut bench, "orders", "b"), Some("stream_full"));
    let others = "others";
    assert_eq!(refusal(&mut bench, others, "b"), None, "what may drop, and has nothing, uses what is left");
    disk(&mut bench, FreeSpace::Exhausted);
    assert_eq!(refusal(&mut bench, others, "b"), Some("stream_full"), "it has no block that could go");
    assert_eq!(ids(&bench), [1, 2, 3, 4, 5, 6]);
    disk(&mut bench, FreeSpace::Enough);
    assert_eq!(refusal(&mut bench, "orders", "b"), None);
    assert_eq!(refusal(&mut bench, "others", "b"), None);
}

#[test]
fn on_a_disk_without_any_room_the_oldest_blocks_go_once_and_nothing_is_appended() {
    let mut bench = of_three_blocks(records::WhenFull::DropOldest);
    disk(&mut bench, FreeSpace::Exhausted);
    for _ in 0..5 {
        assert_eq!(refusal(&mut bench, "orders", "b"), Some("stream_full"));
        bench.work();
    }
    assert_eq!((ids(&bench), bench.files()), (vec![3, 4, 5, 6], 2), "its room is not there yet");
    disk(&mut bench, FreeSpace::Enough);
    assert_eq!(refusal(&mut bench, "orders", "b"), None);
    assert_eq!(ids(&bench), [3, 4, 5, 6, 7]);
}

#[test]
fn of_very_much_that_is_not_stored_the_first_blocks_are_loaded_and_the_others_follow() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| (settings.block.messages, settings.block.bytes) = (3, 64 << 20));
    let text = "a".repeat(1_000_000);
    for _ in 0..25 {
        bench.append_new("orders", &[text.as_str()]);
    }
    bench.load();
    bench.append_new("orders", &["b"]);
    let blocks: Vec<usize> = bench.machine().loaded.values().map(|loaded| loaded.blocks.len()).collect();
    assert_eq!(blocks, [4], "three of them, and the open one");
    assert_eq!(bench.work(), 9, "eight full ones, and what was left before the start");
    assert_eq!(ids(&bench), (1..=26).collect::<Vec<_>>());
    bench.pass(Duration::from_secs(60));
    assert_eq!((bench.work(), ids(&bench).len()), (1, 26));
}
