//! What every storage of blocks promises.

use std::collections::BTreeSet;
use std::io;

use crate::blocks::BlockStorage;

/// Blocks are read in ranges, replaced, listed by folder, and deleted. `folder` is empty for a
/// storage without folders.
///
/// # Panics
/// When the storage does otherwise.
pub fn check_a_storage(blocks: &dyn BlockStorage, folder: &str) {
    let named = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let (one, other) = (named("a.block"), named("b.block"));
    blocks.probe().expect("can be used");
    assert_eq!(blocks.names(folder).expect("is listed"), [""; 0]);
    blocks.put(&one, b"first, and longer").expect("is written");
    blocks.put(&one, b"messages").expect("is written");
    let long: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
    blocks.put(&other, &long).expect("is written");
    assert_eq!(blocks.get_range(&one, 0, 8).expect("is read"), b"messages");
    assert_eq!(blocks.get_range(&one, 4, 3).expect("is read"), b"age");
    assert_eq!(blocks.get_range(&one, 8, 0).expect("is read"), b"");
    assert!(blocks.get_range(&other, 0, long.len()).expect("is read") == long);
    assert!(blocks.get_range(&other, 1_000_000, 70_000).expect("is read") == long[1_000_000..1_070_000]);
    for (offset, len) in [(4, 5), (9, 0), (9, 1), (u64::MAX, 2), (0, 1 << 30)] {
        let error = blocks.get_range(&one, offset, len).expect_err("is not there");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{offset} {len}: {error}");
    }
    let names: BTreeSet<String> = blocks.names(folder).expect("is listed").into_iter().collect();
    assert_eq!(names, BTreeSet::from([one.clone(), other.clone()]));
    assert_eq!(blocks.names("of-another").expect("is listed"), [""; 0]);
    for name in [&one, &other] {
        blocks.delete(name).expect("is deleted");
        blocks.delete(name).expect("is no error");
        let error = blocks.get_range(name, 0, 1).expect_err("is gone");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
    assert_eq!(blocks.names(folder).expect("is listed"), [""; 0]);
}
