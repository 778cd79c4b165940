//! How the file of a block is called.

use std::fmt;

use base::Incarnation;

/// Which block: the stream and the first message's id. Shown, it is the name of the block's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockName {
    /// The stream.
    pub stream: Incarnation,
    /// The first message's id.
    pub first: u64,
}

impl BlockName {
    /// The block whose file has this name. `None` for any other file.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let (stream, first) = name.strip_suffix(".block")?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let block = Self { stream: Incarnation(number(stream)?), first: number(first)? };
        // Other digits of the same number are another name.
        (block.to_string() == name).then_some(block)
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}.block", self.stream.0, self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_block() {
        let block = BlockName { stream: Incarnation(0xab), first: u64::MAX };
        assert_eq!(block.to_string(), "00000000000000ab-ffffffffffffffff.block");
        assert_eq!(BlockName::of_file(&block.to_string()), Some(block));
        for name in [
            "",
            "00000000000000ab-ffffffffffffffff",
            "00000000000000AB-ffffffffffffffff.block",
            "ab-1.block",
            "+0000000000000ab-0000000000000001.block",
            "00000000000000ab-0000000000000001.block.tmp",
        ] {
            assert_eq!(BlockName::of_file(name), None, "{name}");
        }
    }
}
