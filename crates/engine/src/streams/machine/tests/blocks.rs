//! Blocks: closed, stored, read, dropped, and found again after a crash.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A stream whose blocks have two messages each.
fn of_two(bench: &mut Bench, change: impl FnOnce(&mut StreamSettings)) {
    bench.set("orders", |settings| {
        settings.block.messages = 2;
        change(settings);
    });
}

fn rows(bench: &Bench) -> (usize, usize) {
    let (view, stream) = (bench.store.view(id()).expect("opens"), Incarnation::in_partition(0, 0));
    let blocks = view.stream_blocks(stream, 0, 99).expect("reads").len();
    (blocks, view.stream_chunks(stream, 0..u64::MAX, usize::MAX).expect("reads").len())
}

#[test]
fn a_full_block_becomes_a_file_and_is_read_from_there() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    bench.append_new("orders", &["a", "a", "a", "a", "a"]);
    assert_eq!(rows(&bench), (0, 3), "a chunk never goes on in the next block");
    assert_eq!(bench.work(), 2);
    assert_eq!((rows(&bench), bench.files()), ((2, 1), 2));
    for _ in 0..2 {
        assert_eq!(bench.all("orders"), of(1..=5, "a"));
        let page = bench.read("orders", 3).expect("is read");
        assert_eq!(page.items.iter().map(|item| item.id).collect::<Vec<_>>(), [4, 5]);
        bench.load();
    }
}

#[test]
fn a_block_is_closed_for_its_age_also_after_a_start() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["a"]);
    bench.load();
    bench.pass(MINUTE);
    assert_eq!((bench.work(), rows(&bench)), (1, (1, 0)));
}

#[test]
fn a_file_without_a_row_goes_and_its_block_is_stored_again() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    bench.append_new("orders", &["a", "a"]);
    let work = bench.context.take_block_work().expect("a block is to be stored");
    let done = do_work(&bench.store, &bench.context, work);
    assert!(done.is_some() && bench.files() == 1, "the process dies before the row is written");
    bench.load();
    assert_eq!(bench.files(), 0, "nobody needs it");
    bench.pass(MINUTE);
    assert_eq!((bench.work(), bench.files(), rows(&bench)), (1, 1, (1, 0)));
    assert_eq!(bench.all("orders"), of(1..=2, "a"));
}

#[test]
fn a_file_goes_though_the_batch_that_was_to_delete_it_is_lost() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    bench.append_new("orders", &["a", "a"]);
    let work = bench.context.take_block_work().expect("a block is to be stored");
    let done = do_work(&bench.store, &bench.context, work).expect("its partition is told");
    bench.delete("orders").expect("is deleted");
    bench.hold();
    bench.one_step(vec![done.into_input()]);
    bench.load_again();
    bench.settle(Vec::new());
    bench.work();
    assert_eq!(bench.files(), 0);
}

#[test]
fn a_file_whose_row_is_on_its_way_stays_when_its_partition_is_loaded_again() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    bench.append_new("orders", &["a", "a"]);
    let work = bench.context.take_block_work().expect("a block is to be stored");
    let done = do_work(&bench.store, &bench.context, work).expect("its partition is told");
    bench.load_again();
    assert_eq!((bench.work(), bench.files()), (0, 1), "its messages are there");
    bench.settle(vec![done.into_input()]);
    bench.pass(MINUTE);
    assert_eq!((bench.work(), bench.files(), rows(&bench)), (1, 1, (1, 0)));
    assert_eq!(bench.all("orders"), of(1..=2, "a"));
}

#[test]
fn old_blocks_go_with_all_that_leads_to_them() {
    let mut bench = Bench::new();
    of_two(&mut bench, |settings| settings.keep.age_ms = Some(600_000));
    bench.append("orders", vec![from_source("a", "1"), from_source("a", "x")]);
    bench.work();
    bench.pass(MINUTE * 5);
    bench.append("orders", vec![from_source("b", "2"), from_source("b", "y")]);
    bench.work();
    bench.pass(MINUTE * 5);
    bench.work();
    assert_eq!((rows(&bench), bench.files()), ((1, 0), 1));
    assert_eq!(bench.all("orders"), of(3..=4, "b"));
    assert_eq!(bench.read("orders", 0).expect("is read").skipped, 2);
    let (view, stream) = (bench.store.view(id()).expect("opens"), Incarnation::in_partition(0, 0));
    assert_eq!(view.texts_up_to(stream, 2, 9).expect("reads"), []);
    assert_eq!(view.spans_up_to(stream, 2, 9).expect("reads"), []);
    drop(view);
    let again = bench.append("orders", vec![from_source("a", "1"), from_source("a", "x")]);
    let duplicate = AppendOutcome::Duplicate(Box::new(from_source("a", "1")));
    assert_eq!(again, [duplicate, AppendOutcome::Appended(5)], "a number is known for ever, a text is not");
}

#[test]
fn a_stream_with_a_bound_of_bytes_drops_its_oldest_blocks_or_refuses() {
    let text = "x".repeat(1_000);
    let mut bench = Bench::new();
    of_two(&mut bench, |settings| settings.keep.bytes = Some(20_000));
    for _ in 0..40 {
        bench.append_new("orders", &[&text]);
        bench.work();
    }
    let kept = bench.all("orders");
    assert!((12..=20).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|(id, _)| *id), Some(40));
    bench.set("full", |settings| {
        settings.keep.bytes = Some(5_000);
        settings.when_full = records::WhenFull::Reject;
    });
    for _ in 0..4 {
        bench.append_new("full", &[&text]);
    }
    let refused = bench.begin("full", vec![message(&text)], None).try_recv().expect("it is answered");
    let refused = refused.expect_err("is full");
    assert_eq!(refused.code, "stream_full");
    for part in ["the stream holds ", " of 5000 bytes, and 10", " more came: raise keep.bytes"] {
        assert!(refused.detail.contains(part), "{part}: {}", refused.detail);
    }
}

#[test]
fn only_blocks_with_a_segment_are_read_for_it() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    let of_segment = |segment: &str| NewMessage { segment: Some(segment.into()), ..message(segment) };
    for segment in ["east", "east", "west", "west", "east", "west", "west"] {
        bench.append("orders", vec![of_segment(segment)]);
        bench.work();
    }
    let query =
        StreamRead { after: 0, from: None, segments: vec!["east".into()], limit: 10, bytes_max: usize::MAX };
    let reader = StreamReader { store: &bench.store, context: &bench.context };
    let page = reader.read(&name("orders"), &query).expect("is read");
    assert_eq!(page.items.iter().map(|item| item.id).collect::<Vec<_>>(), [1, 2, 5]);
    assert_eq!((page.next_after, page.is_end), (7, true));
    let page = reader.read(&name("orders"), &StreamRead { limit: 2, ..query }).expect("is read");
    assert_eq!((page.items.len(), page.next_after, page.is_end), (2, 2, false));
}

#[test]
fn the_first_message_of_a_duplicate_is_found_wherever_it_lies() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    for id in ["1", "x", "2", "y", "3", "z"] {
        bench.append("orders", vec![from_source(id, id)]);
    }
    let _lost = bench.context.take_block_work();
    bench.load();
    bench.pass(MINUTE);
    assert_eq!(bench.work(), 3);
    bench.append("orders", vec![from_source("4", "4"), from_source("w", "w")]);
    let reader = StreamReader { store: &bench.store, context: &bench.context };
    let ids = ["1", "x", "2", "y", "3", "z", "4", "w"];
    let again: Vec<_> = ids.iter().map(|id| from_source(id, id)).collect();
    let firsts = reader.first_messages(&name("orders"), &again).expect("is read");
    for (place, first) in firsts.iter().enumerate() {
        let first = &first.appended;
        assert_eq!((first.id, first.conflict), (Some(place as u64 + 1), false), "{}", ids[place]);
    }
    let other = reader.first_messages(&name("orders"), &[from_source("other", "2")]).expect("is read");
    assert!(other[0].appended.conflict && other[0].appended.id == Some(3), "{other:?}");
    let gone = reader.first_messages(&name("orders"), &[from_source("a", "99")]).expect("is read");
    assert_eq!((gone[0].appended.id, &gone[0].untold), (None, &None));
}

#[test]
fn blocks_leave_memory_once_nobody_used_them_for_as_long_as_their_stream_says() {
    let mut bench = Bench::new();
    of_two(&mut bench, |_| {});
    bench.append_new("orders", &["a", "a", "a"]);
    assert_eq!(bench.work(), 1);
    let is_in_memory = |bench: &Bench, last| {
        bench.context.tails.get(&name("orders")).is_some_and(|open| open.has_before(last))
    };
    let unload = |bench: &Bench, later: Duration| {
        let tails = &bench.context.tails;
        bench.context.unload(&bench.store, bench.now, std::time::Instant::now() + later);
        tails.handled.add_unloaded(bench.now);
        tails.handled.of(Incarnation::in_partition(0, 0)).unloaded.map_or(0, |unloaded| unloaded.blocks)
    };
    bench.pass(Duration::from_secs(50));
    assert!(unload(&bench, Duration::ZERO) == 0 && is_in_memory(&bench, 2));
    bench.append_new("orders", &["a"]);
    assert_eq!(bench.work(), 1);
    bench.pass(Duration::from_secs(15));
    assert_eq!(unload(&bench, Duration::ZERO), 1, "the stream is used, its first block is not");
    assert!(!is_in_memory(&bench, 2) && is_in_memory(&bench, 4), "the newest message is young");
    assert_eq!(bench.all("orders"), of(1..=4, "a"));
    assert_eq!(bench.context.indexes.streams().len(), 1, "it was read from its file");
    assert_eq!(unload(&bench, Duration::from_secs(59)), 1);
    assert_eq!(unload(&bench, Duration::from_secs(61)), 3, "both indexes that were read");
    assert!(bench.context.indexes.streams().is_empty());
}
