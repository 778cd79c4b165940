//! Blocks go to other storages, which may be away, and processes end at any point of it.

use std::collections::BTreeMap;

use records::StreamMove;
use store::{BlockStorage, SwitchedBlocks};

use super::*;
use crate::streams::ReceiptOf;
use crate::streams::block_sweep::sweep_storage;

struct MovingBench {
    bench: Bench,
    cold: Arc<SwitchedBlocks>,
    deep: Arc<SwitchedBlocks>,
}

fn files_of(storage: &SwitchedBlocks, lineage: u64) -> usize {
    storage.blocks().names(&records::block_folder(Lineage(lineage))).expect("is listed").len()
}

const DAY: Duration = Duration::from_secs(86_400);

fn moves(of: &[(u64, &str)]) -> Vec<StreamMove> {
    of.iter().map(|(after_ms, to)| StreamMove { after_ms: *after_ms, to: (*to).into() }).collect()
}

fn bench() -> MovingBench {
    let (cold, deep) = (Arc::<SwitchedBlocks>::default(), Arc::<SwitchedBlocks>::default());
    let storages: [(Box<str>, Arc<dyn BlockStorage>); 2] =
        [("cold".into(), Arc::clone(&cold) as _), ("deep".into(), Arc::clone(&deep) as _)];
    let bench = Bench::with(&BlockStorages::new(BTreeMap::from(storages)));
    MovingBench { bench, cold, deep }
}

impl MovingBench {
    /// A stream of blocks of two messages that go to `cold` after an hour, and to `deep` after a
    /// day.
    fn stream(&mut self, name: &str, messages: usize) {
        self.bench.set(name, |settings| {
            settings.block.messages = 2;
            settings.keep.age_ms = None;
            settings.moves = moves(&[(3_600_000, "cold"), (86_400_000, "deep")]);
        });
        self.bench.append_new(name, &vec!["a"; messages]);
        self.bench.work();
    }

    /// Brings the next block to where it goes. What its partition is to be told.
    fn bring_next(&self) -> StreamsInput {
        let work = self.bench.context.take_block_work().expect("a block is to go");
        let ended = do_work(&self.bench.store, &self.bench.context, work);
        ended.expect("its partition is told").into_input()
    }

    /// Files in the local storage, in cold, and in deep.
    fn files(&self) -> (usize, usize, usize) {
        (self.bench.files(), files_of(&self.cold, 1), files_of(&self.deep, 1))
    }

    /// Time passes, and all work is done that it brings.
    fn pass(&mut self, span: Duration) {
        self.bench.pass(span);
        let mut idle = 0;
        while idle < 2 {
            // What is found once a batch is durable comes with a step of its own.
            idle = if self.bench.work_once() > 0 { 0 } else { idle + 1 };
            self.bench.settle(Vec::new());
        }
    }

    /// The rows and the files of all storages say the same.
    fn check(&self, stream: &str) {
        let view = self.bench.store.view(id()).expect("opens");
        let row = view.stream_of("shop", stream).expect("reads").expect("is there");
        let tail = view.stream_tail(row.incarnation).expect("reads").expect("is there");
        let blocks = view.stream_blocks(row.incarnation, 0, usize::MAX).expect("reads");
        for (storage, count, _) in ::streams::tail::by_storage(&tail) {
            let rows = blocks.iter().filter(|block| block.storage == storage).count() as u64;
            assert_eq!(rows, count, "{storage}: {tail:?}");
            let known = self.bench.context.storage(&self.bench.store, &storage).expect("is known");
            for block in blocks.iter().filter(|block| block.storage == storage) {
                assert!(known.get_range(&block.file_name(), 0, 1).is_ok(), "{}", block.file_name());
            }
        }
    }
}

impl Bench {
    /// Work that is there now. How much.
    fn work_once(&mut self) -> usize {
        let mut done = 0;
        while let Some(work) = self.context.take_block_work() {
            done += 1;
            if let Some(work) = do_work(&self.store, &self.context, work) {
                self.settle(vec![work.into_input()]);
            }
        }
        done
    }
}

#[test]
fn blocks_go_down_a_chain_of_storages_as_they_grow_old() {
    let mut of = bench();
    of.stream("orders", 6);
    assert_eq!(of.files(), (3, 0, 0));
    of.pass(Duration::from_secs(3_599));
    assert_eq!(of.files(), (3, 0, 0));
    of.pass(Duration::from_secs(2));
    assert_eq!(of.files(), (0, 3, 0));
    of.check("orders");
    assert_eq!(of.bench.all("orders"), super::of(1..=6, "a"));
    of.pass(DAY);
    assert_eq!(of.files(), (0, 0, 3));
    of.check("orders");
    assert_eq!(of.bench.all("orders"), super::of(1..=6, "a"));
    assert_eq!(of.bench.machine().loaded.len(), 0, "nobody uses it");
    let now = of.bench.now;
    assert_eq!(of.bench.machine().next_wakeup(now), None, "there is nothing more to do");
}

#[test]
fn what_lies_in_a_storage_that_is_away_is_not_told_rather_than_gone() {
    let mut of = bench();
    of.stream("orders", 2);
    of.bench.append("orders", ["1", "x"].map(|id| from_source(id, id)).into());
    of.bench.work();
    of.pass(Duration::from_secs(4_000));
    assert_eq!(of.files(), (0, 2, 0));
    let receipt = |of: &MovingBench, id: &str| {
        let origin = ReceiptOf::Origin("till".into(), OwnedExternalId::from_text(id));
        let receipt = of.bench.context.receipt(&of.bench.store, &name("orders"), &origin);
        receipt.map(|shown| shown.id).map_err(|problem| problem.code)
    };
    let firsts = |of: &MovingBench| {
        let reader = StreamReader { store: &of.bench.store, context: &of.bench.context };
        let again = ["1", "x", "9"].map(|id| from_source(id, id));
        let firsts = reader.first_messages(&name("orders"), &again).expect("is read");
        firsts.into_iter().map(|first| (first.appended.id, first.untold.is_some())).collect::<Vec<_>>()
    };
    of.cold.go_away(true);
    assert_eq!(firsts(&of), [(None, true), (Some(4), false), (None, false)], "a text has a row of its own");
    let away = Err("storage_unavailable");
    assert_eq!(["1", "x", "9"].map(|id| receipt(&of, id)), [away, away, Err("unknown_message")]);
    of.cold.go_away(false);
    assert_eq!(firsts(&of), [(Some(3), false), (Some(4), false), (None, false)]);
    assert_eq!(["1", "x", "9"].map(|id| receipt(&of, id)), [Ok(3), Ok(4), Err("unknown_message")]);
}

#[test]
fn a_storage_that_is_away_keeps_blocks_where_they_are_until_it_is_back() {
    let mut of = bench();
    of.stream("orders", 4);
    of.stream("others", 4);
    of.cold.go_away(true);
    of.pass(Duration::from_secs(4_000));
    assert_eq!(of.files(), (4, 0, 0));
    assert_eq!(of.bench.all("orders").len(), 4, "they can be read");
    let handled = of.bench.context.tails.handled.of(Incarnation::in_partition(0, 0));
    let error = handled.moved.get("cold").and_then(|moved| moved.error.clone());
    assert!(error.is_some_and(|error| error.contains("away")), "it is told");
    of.cold.go_away(false);
    for _ in 0..8 {
        of.pass(Duration::from_secs(61));
    }
    assert_eq!(of.files(), (0, 4, 0));
    of.check("orders");
    of.cold.go_away(true);
    let problem = of.bench.read("orders", 0).expect_err("is away");
    assert_eq!(problem.code, "storage_unavailable");
    assert!(problem.detail.contains("\"cold\""), "{problem}");
    assert_eq!(of.bench.append_new("orders", &["b"]), [5], "nothing else is held up");
}

#[test]
fn a_process_that_ends_at_any_point_leaves_no_block_in_two_places_or_none() {
    // So much of the work is done by the first process, and its batches are durable or not.
    for (done, is_held) in (0..12).flat_map(|done| [(done, false), (done, true)]) {
        let mut of = bench();
        of.stream("orders", 8);
        of.bench.pass(Duration::from_secs(3_601));
        for _ in 0..done {
            let Some(work) = of.bench.context.take_block_work() else { break };
            let ended = do_work(&of.bench.store, &of.bench.context, work);
            if is_held {
                of.bench.hold();
            }
            if let Some(ended) = ended {
                of.bench.one_step(vec![ended.into_input()]);
            }
            if is_held {
                break;
            }
        }
        of.bench.load();
        sweep_storage(&of.bench.store, &of.bench.context, "cold").expect("can be reached");
        of.bench.settle(Vec::new());
        of.pass(Duration::from_secs(120));
        assert_eq!(of.files(), (0, 4, 0), "{done} {is_held}");
        of.check("orders");
        assert_eq!(of.bench.all("orders"), super::of(1..=8, "a"), "{done} {is_held}");
    }
}

#[test]
fn what_is_dropped_or_deleted_goes_wherever_it_is() {
    let mut of = bench();
    of.bench.set("orders", |settings| {
        settings.block.messages = 2;
        settings.keep.age_ms = Some(7_200_000);
        settings.moves = moves(&[(3_600_000, "cold")]);
    });
    of.bench.append_new("orders", &["a"; 6]);
    of.bench.work();
    of.pass(Duration::from_secs(3_601));
    assert_eq!(of.files(), (0, 3, 0));
    of.pass(Duration::from_secs(3_601));
    assert_eq!(of.files(), (0, 0, 0));
    of.stream("others", 4);
    of.pass(Duration::from_secs(3_601));
    assert_eq!(of.files(), (0, 2, 0));
    of.bench.delete("others").expect("is deleted");
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 0, 0));
}

#[test]
fn a_file_that_could_not_be_deleted_goes_when_its_storage_is_back() {
    let mut of = bench();
    of.stream("orders", 4);
    of.pass(Duration::from_secs(3_601));
    assert!(of.bench.context.look_at_storage(&of.bench.store, "cold"));
    of.cold.go_away(true);
    of.bench.delete("orders").expect("is deleted");
    of.pass(Duration::from_secs(1));
    assert!(!of.bench.context.look_at_storage(&of.bench.store, "cold"));
    of.cold.go_away(false);
    assert_eq!(of.files(), (0, 2, 0));
    assert!(of.bench.context.look_at_storage(&of.bench.store, "cold"));
    assert_eq!(of.files(), (0, 0, 0));
}

#[test]
fn a_block_is_in_one_place_though_it_was_not_told_that_its_new_row_is_written() {
    let mut of = bench();
    of.stream("orders", 2);
    of.bench.pass(Duration::from_secs(3_601));
    let brought = of.bring_next();
    of.bench.hold();
    of.bench.one_step(vec![brought]);
    for (batch, _lost) in of.bench.held.take().into_iter().flatten() {
        of.bench.store.commit(batch, Box::new(|_| {}));
    }
    of.bench.load_again();
    assert_eq!(of.files(), (1, 1, 0));
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 1, 0));
    of.check("orders");
    assert_eq!(of.bench.all("orders"), super::of(1..=2, "a"));
}

#[test]
fn a_file_that_was_brought_for_a_block_that_is_gone_goes_whatever_batch_is_lost() {
    let mut of = bench();
    of.stream("orders", 2);
    of.bench.pass(Duration::from_secs(3_601));
    let brought = of.bring_next();
    of.bench.delete("orders").expect("is deleted");
    of.bench.hold();
    let _unanswered = of.bench.begin("others", vec![message("b")], None);
    of.bench.one_step(vec![brought]);
    of.bench.load_again();
    assert_eq!(of.files(), (1, 1, 0));
    assert!(of.bench.context.look_at_storage(&of.bench.store, "cold"));
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 0, 0));
}

#[test]
fn a_block_that_goes_before_it_is_brought_again_leaves_no_file() {
    let mut of = bench();
    of.stream("orders", 2);
    of.bench.pass(Duration::from_secs(3_601));
    let brought = of.bring_next();
    of.bench.hold();
    of.bench.one_step(vec![brought]);
    of.bench.load_again();
    assert!(of.bench.context.look_at_storage(&of.bench.store, "cold"));
    assert_eq!(of.files(), (1, 1, 0), "it may be on its way");
    of.bench.delete("orders").expect("is deleted");
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 0, 0));
}

#[test]
fn nothing_of_another_data_directory_is_deleted() {
    let mut of = bench();
    of.stream("orders", 4);
    of.pass(Duration::from_secs(3_601));
    let name = format!("{}/{:016x}-{:016x}.block", records::block_folder(Lineage(2)), 0, 1);
    of.cold.put(&name, b"of another server").expect("is written");
    let copy = of.bench.store.view(id()).expect("opens");
    let block = copy.stream_block(Incarnation::in_partition(0, 0), 1).expect("reads").expect("is there");
    drop(copy);
    sweep_storage(&of.bench.store, &of.bench.context, "cold").expect("can be reached");
    assert_eq!((files_of(&of.cold, 1), files_of(&of.cold, 2)), (2, 1));
    // Of a backup: its rows name files of the server that it was made of.
    let file = crate::streams::block_worker::BlockFile::of(&records::StreamBlock {
        brought_by: Lineage(2),
        first: 99,
        ..block
    });
    let of_another = format!("{}/{}.block", records::block_folder(Lineage(2)), "x");
    of.cold.put(&of_another, b"of another server").expect("is written");
    assert!(do_work(&of.bench.store, &of.bench.context, BlockWork::Delete(file)).is_none());
    assert_eq!(files_of(&of.cold, 2), 2);
}

#[test]
fn a_damaged_block_stays_and_holds_up_no_other() {
    let mut of = bench();
    of.stream("orders", 6);
    let name = ::streams::BlockName { stream: Incarnation::in_partition(0, 0), first: 3 }.to_string();
    of.bench.store.blocks().put(&name, b"damaged").expect("is written");
    of.pass(Duration::from_secs(3_700));
    assert_eq!(of.files(), (1, 2, 0));
    let handled = of.bench.context.tails.handled.of(Incarnation::in_partition(0, 0));
    assert_eq!(handled.moved.get("cold").map(|moved| moved.blocks), Some(2));
}

#[test]
fn other_moves_take_blocks_on_from_wherever_they_are() {
    let mut of = bench();
    of.stream("orders", 6);
    of.pass(Duration::from_secs(3_601));
    assert_eq!(of.files(), (0, 3, 0));
    of.bench.set("orders", |settings| {
        settings.block.messages = 2;
        settings.moves = moves(&[(60_000, "deep")]);
    });
    of.pass(Duration::from_secs(2));
    assert_eq!(of.files(), (0, 0, 3));
    of.check("orders");
    of.bench.set("orders", |settings| settings.moves = moves(&[(1_000, "local")]));
    of.pass(Duration::from_secs(2));
    assert_eq!(of.files(), (3, 0, 0));
    of.check("orders");
    assert_eq!(of.bench.all("orders"), super::of(1..=6, "a"));
}

#[test]
fn many_streams_take_turns() {
    let mut of = bench();
    for stream in 0..20 {
        of.stream(&format!("s{stream}"), 6);
    }
    of.bench.pass(Duration::from_secs(3_601));
    let mut most = 0;
    for _ in 0..1_000 {
        let Some(work) = of.bench.context.take_block_work() else { break };
        let under_way = of.bench.machine().loaded.values();
        most = most.max(under_way.filter(|loaded| loaded.moves.under_way.is_some()).count());
        if let Some(ended) = do_work(&of.bench.store, &of.bench.context, work) {
            of.bench.settle(vec![ended.into_input()]);
        }
    }
    assert_eq!((of.files(), most), ((0, 60, 0), 2));
}

#[test]
fn a_disk_that_is_nearly_full_has_blocks_move_early_and_drops_none() {
    let mut of = bench();
    of.stream("orders", 6);
    of.bench.settle(vec![StreamsInput::Disk { room: ::streams::FreeSpace::Low }]);
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 3, 0));
    assert_eq!(of.bench.append_new("orders", &["a", "a"]), [7, 8]);
    of.pass(Duration::from_secs(1));
    assert_eq!(of.files(), (0, 4, 0));
    assert_eq!(of.bench.all("orders").len(), 8);
    // With the storage away nothing here makes room: what is left is used, and then no more.
    of.cold.go_away(true);
    of.bench.append_new("orders", &["a", "a"]);
    of.pass(Duration::from_secs(1));
    assert_eq!(of.bench.append_new("orders", &["a"]), [11], "nothing is dropped in vain");
    of.bench.settle(vec![StreamsInput::Disk { room: ::streams::FreeSpace::Exhausted }]);
    let answer = of.bench.begin("orders", vec![message("a")], None).try_recv().expect("is answered");
    assert_eq!(answer.expect_err("has no room").code, "stream_full");
}
