//! Where bytes are cut that come over a network: at places that follow from the bytes themselves,
//! so that an input repeats.

use base::hash;
use base::random::Random;

/// Cuts into at most `pieces_max` pieces, none of them empty.
pub(crate) fn cut(bytes: &[u8], pieces_max: u64) -> Vec<&[u8]> {
    let mut random = Random::new(hash::derived(0, bytes));
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let last = pieces.len() as u64 + 1 >= pieces_max;
        // Short pieces are as likely as long ones: it is headers that are torn.
        let wanted = match random.below(3) {
            0 => 1 + random.below(4),
            1 => 1 + random.below(64),
            _ => 1 + random.below(rest.len() as u64),
        };
        let length = if last { rest.len() } else { (wanted as usize).min(rest.len()) };
        let (piece, behind) = rest.split_at(length);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
