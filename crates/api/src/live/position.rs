//! How far a stream has come in its feeds, as the text by which a cut stream goes on.
//!
//! `version, places, check` in base64url, as a cursor has it. A text that another stream gave is
//! not taken: then the stream begins anew. The check finds mistakes. It keeps nobody from making
//! such a text up, and need not. The stream reads its own feed behind the place, with the rights of
//! its own caller.

use base::{Timestamp, hash};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::topic::LiveTopic;

/// Changes with the layout of any place.
const VERSION: u8 = 1;
const CHECK_BYTES: usize = 8;
/// Longer text is not looked at: every feed with the longest of places takes less.
const TEXT_BYTES_MAX: usize = 512;

/// How far a feed was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FeedPosition {
    /// The key of the last item.
    pub(super) place: Box<[u8]>,
    /// There is nothing between that and this time.
    pub(super) looked_until: Timestamp,
}

/// The text for these places, of a stream with that fingerprint.
pub(super) fn write<'a>(
    fingerprint: u64,
    positions: impl Iterator<Item = (LiveTopic, &'a FeedPosition)>,
) -> String {
    let mut bytes = vec![VERSION];
    for (topic, FeedPosition { place, looked_until }) in positions {
        bytes.push(topic as u8);
        bytes.push(u8::try_from(place.len()).expect("the key of an item is short"));
        bytes.extend_from_slice(place);
        bytes.extend_from_slice(&looked_until.0.to_be_bytes());
    }
    let check = hash::derived(fingerprint, &bytes);
    bytes.extend_from_slice(&check.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The places in such a text; none if it is not of a stream with that fingerprint.
pub(super) fn read(fingerprint: u64, text: &str) -> Vec<(LiveTopic, FeedPosition)> {
    places_in(fingerprint, text).unwrap_or_default()
}

fn places_in(fingerprint: u64, text: &str) -> Option<Vec<(LiveTopic, FeedPosition)>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    let (version, mut rest) = content.split_first()?;
    if *version != VERSION || hash::derived(fingerprint, content) != u64::from_be_bytes(*check) {
        return None;
    }
    let mut positions = Vec::new();
    while let [number, length, left @ ..] = rest {
        let topic = LiveTopic::ALL.into_iter().find(|topic| *topic as u8 == *number)?;
        let (place, left) = left.split_at_checked(usize::from(*length))?;
        let (until, left) = left.split_first_chunk()?;
        let looked_until = Timestamp(i64::from_be_bytes(*until));
        positions.push((topic, FeedPosition { place: place.into(), looked_until }));
        rest = left;
    }
    rest.is_empty().then_some(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written_by_the_stream_that_wrote_it() {
        let at = |place: &[u8], until| FeedPosition { place: place.into(), looked_until: Timestamp(until) };
        let places = [(LiveTopic::Events, at(b"abcdef", 7)), (LiveTopic::Commands, at(b"", i64::MIN))];
        let text = write(5, places.iter().map(|(topic, position)| (*topic, position)));
        assert_eq!(read(5, &text), places);
        assert_eq!(read(6, &text), []);
        let flipped = text.replacen(&text[4..5], if &text[4..5] == "A" { "B" } else { "A" }, 1);
        for foreign in ["", "x", &flipped, &text[1..], &"A".repeat(TEXT_BYTES_MAX + 1)] {
            assert_eq!(read(5, foreign), [], "{foreign}");
        }
    }
}
