//! Numbers and texts as messages and indexes of blocks have them: LEB128 varints, zigzag for signed
//! numbers, and bytes behind their length.
//!
//! Each number has one form only: what is read can be written again to the same bytes.

/// Bytes of the longest number.
const NUMBER_BYTES_MAX: usize = 10;

/// Appends a number: seven bits a byte, lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut left = number;
    while let 0x80.. = left {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends a signed number: small ones of either sign are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Appends bytes behind their length.
pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that are not read yet. Every method is `None` where they end too soon or make no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread<'a>(pub(crate) &'a [u8]);

impl<'a> Unread<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// A number in its shortest form.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 { Some(u64::from(first)) } else { self.long_number(first) }
    }

    fn long_number(&mut self, first: u8) -> Option<u64> {
        let mut number = u64::from(first & 0x7f);
        for place in 1..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if place == NUMBER_BYTES_MAX - 1 && byte > 1 {
                return None;
            }
            number |= bits << (7 * place);
            if byte < 0x80 {
                return (byte != 0).then_some(number);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let folded = self.number()?;
        Some((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    /// A number that is a length or a count in memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Bytes behind their length.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let bytes = self.count()?;
        self.take(bytes)
    }

    /// UTF-8 behind its length.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for (bytes, expect) in [
            (&[0_u8][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 1], Some(128)),
            (&[0x80, 0], None),
            (&[0x80], None),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Some(u64::MAX)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], None),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0], None),
        ] {
            assert_eq!(Unread(bytes).number(), expect, "{bytes:02x?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_and_texts_are_read_back(number: u64, signed: i64, text: String) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number >> (number % 64));
            put_signed(&mut bytes, signed);
            put_counted(&mut bytes, text.as_bytes());
            let mut unread = Unread(&bytes);
            prop_assert_eq!(unread.number(), Some(number >> (number % 64)));
            prop_assert_eq!((unread.signed(), unread.text()), (Some(signed), Some(&*text)));
            prop_assert_eq!(unread.byte(), None);
        }

        #[test]
        fn a_number_that_is_read_is_written_to_the_same_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut unread = Unread(&bytes);
            if let Some(number) = unread.number() {
                let mut written = Vec::new();
                put_number(&mut written, number);
                prop_assert_eq!(&written[..], &bytes[..bytes.len() - unread.0.len()]);
            }
        }
    }
}
