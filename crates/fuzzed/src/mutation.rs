//! Small changes to a seed, drawn from a number: what a stable toolchain does in place of a fuzzer
//! that sees coverage.
//!
//! The same seed, corpus and number give the same bytes on every machine.

use base::random::Random;

/// Bytes that readers treat in a special way.
const TELLING: [&[u8]; 16] = [
    b"\0",
    b"\xff",
    b"\x80",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b",",
    b"-",
    b"1e999",
    b"\\u0000",
    b"\xed\xa0\x80",
    b"null",
];

/// `seed` with some changes; now and then with a part of `other`.
#[must_use]
pub fn mutated(seed: &[u8], other: &[u8], bytes_max: usize, number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        change(&mut bytes, other, &mut random);
    }
    bytes.truncate(bytes_max);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let length = (1 + random.below(8)) as usize;
    let end = (at + length).min(bytes.len());
    match random.below(9) {
        0 => flip_bit(bytes, at, random),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..end)),
        3 => drop(bytes.splice(at..at, (0..length).map(|_| random.next_u64() as u8))),
        4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        5 => drop(bytes.splice(at..end, TELLING[random.below(16) as usize].to_vec())),
        6 => bytes[at..end].fill(0),
        7 => add_to_byte(bytes, at, random),
        _ => {
            let from = random.below(other.len() as u64 + 1) as usize;
            let part = &other[from..(from + 8 * length).min(other.len())];
            drop(bytes.splice(at..end, part.to_vec()));
        }
    }
}

fn flip_bit(bytes: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

fn add_to_byte(bytes: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = byte.wrapping_add(random.below(9) as u8).wrapping_sub(4);
    }
}
