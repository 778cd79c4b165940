//! What counts of chunks in memory, and what no longer does.

use super::*;

const PARTITION: PartitionId = PartitionId(1);
const CHUNK: usize = CHUNK_BYTES + 72;

/// Three durable chunks of one message each, received a second apart.
fn filled(tails: &OpenTails, name: &StreamName) {
    let change = |change| tails.change(PARTITION, name, change);
    change(TailChange::Opened { stream: Incarnation(7), next: 1 });
    for first in 1..=3 {
        let (at, bytes) = (Timestamp(first as i64 * 1_000), Arc::from([0; 72]));
        let chunk = StreamChunk { stream: Incarnation(7), first, messages: 1, at, bytes };
        change(TailChange::Grew(chunk.into()));
    }
    change(TailChange::Saved(4));
}

fn counted(tails: &OpenTails) -> (usize, usize) {
    let recent = locked(&tails.recent);
    (recent.order.iter().filter(|chunk| !chunk.is_unloaded()).count(), recent.bytes)
}

#[test]
fn what_has_left_memory_counts_no_more() {
    let tails = OpenTails::new(100 * CHUNK);
    let name = StreamName::new("shop", "orders").expect("a name");
    filled(&tails, &name);
    assert_eq!(counted(&tails), (3, 3 * CHUNK));
    tails.unload(|_| Timestamp(9_000));
    assert_eq!(counted(&tails), (3, 3 * CHUNK), "no block of it is stored");
    tails.change(PARTITION, &name, TailChange::Stored { last: 2, bytes: 144 });
    tails.unload(|_| Timestamp(2_000));
    assert_eq!(counted(&tails), (2, 2 * CHUNK), "the second was received later");
    let kept = tails.get(&name).expect("it is open");
    tails.change(PARTITION, &name, TailChange::Closed);
    assert_eq!(counted(&tails), (0, 0));
    assert_eq!(kept.unload_before(Timestamp::MAX), (0, 0), "a reader that has it changes nothing");
    filled(&tails, &name);
    filled(&tails, &name);
    assert_eq!(counted(&tails), (3, 3 * CHUNK), "the stream was opened anew");
    tails.partition_loaded(PARTITION);
    assert_eq!(counted(&tails), (0, 0), "the partition was loaded anew");
}

#[test]
fn the_oldest_leave_when_all_have_too_much() {
    let tails = OpenTails::new(4 * CHUNK);
    let names = ["a", "b"].map(|name| StreamName::new("shop", name).expect("a name"));
    filled(&tails, &names[0]);
    filled(&tails, &names[1]);
    assert_eq!(counted(&tails), (4, 4 * CHUNK));
    assert_eq!(tails.get(&names[0]).expect("it is open").read(0, usize::MAX).start, 3);
    tails.change(PARTITION, &names[0], TailChange::Closed);
    filled(&tails, &names[0]);
    assert_eq!(counted(&tails), (4, 4 * CHUNK), "what had left made room");
}
