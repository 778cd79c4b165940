//! Reports that cross together, with what was received of each: what is refused goes into the
//! quarantine as it came.
//!
//! Payloads lie behind each other in one buffer, so that keeping them costs a copy and no
//! allocation for each report.

use base::Problem;
use base::limits::QUARANTINED_PAYLOAD_BYTES_MAX;

use super::{Rejection, Report};

/// A message as it was received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    /// Its body.
    pub payload: &'a [u8],
    /// The topic that it was published to, over MQTT.
    pub topic: Option<&'a str>,
}

/// Messages that were received together, in order: at most [`base::limits::SLICE_REPORTS_MAX`] of
/// them.
#[derive(Debug, Default)]
pub struct Slice {
    /// With the place of each among all messages.
    reports: Vec<(u32, Report)>,
    /// Those of which it cannot be said which device they are from.
    refused: Vec<Rejection>,
    received: ReceivedMessages,
}

impl Slice {
    /// An empty slice.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty slice of the connection with this number, where its way in counts them from 1.
    #[must_use]
    pub fn from_source(source: u64) -> Self {
        Self { received: ReceivedMessages { source, ..ReceivedMessages::default() }, ..Self::default() }
    }

    /// Adds a report.
    pub fn push(&mut self, report: Report, received: Received<'_>) {
        self.reports.push((self.received.len() as u32, report));
        self.received.push(received);
    }

    /// Adds a message that nobody can be found to have sent: it is only kept for the operator.
    pub fn push_refused(&mut self, problem: Problem, received: Received<'_>) {
        self.refused.push(Rejection { index: self.received.len() as u32, device: None, problem });
        self.received.push(received);
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    pub(crate) fn into_parts(self) -> (Vec<(u32, Report)>, Vec<Rejection>, ReceivedMessages) {
        (self.reports, self.refused, self.received)
    }
}

/// Reports without what was received: of one that is refused, an empty payload is kept.
impl FromIterator<Report> for Slice {
    fn from_iter<I: IntoIterator<Item = Report>>(reports: I) -> Self {
        let mut slice = Self::new();
        reports.into_iter().for_each(|report| slice.push(report, Received::default()));
        slice
    }
}

impl From<Vec<Report>> for Slice {
    fn from(reports: Vec<Report>) -> Self {
        reports.into_iter().collect()
    }
}

/// What was received, by place in the slice.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessages {
    /// The connection that it came over; 0 if that is not told.
    pub(crate) source: u64,
    bytes: Vec<u8>,
    places: Vec<MessageBounds>,
}

/// Where a message ends in the buffer; it begins where the one before ends.
#[derive(Debug)]
struct MessageBounds {
    topic_end: u32,
    payload_end: u32,
    has_topic: bool,
    cut: bool,
}

/// A refused message as the quarantine gets it.
#[derive(Debug)]
pub(crate) struct QuarantinedMessage<'a> {
    pub(crate) topic: Option<&'a str>,
    pub(crate) payload: &'a [u8],
    pub(crate) cut: bool,
}

impl ReceivedMessages {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn push(&mut self, Received { payload, topic }: Received<'_>) {
        let cut = payload.len() > QUARANTINED_PAYLOAD_BYTES_MAX;
        self.bytes.extend_from_slice(topic.unwrap_or_default().as_bytes());
        let topic_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&payload[..payload.len().min(QUARANTINED_PAYLOAD_BYTES_MAX)]);
        let payload_end = self.bytes.len() as u32;
        self.places.push(MessageBounds { topic_end, payload_end, has_topic: topic.is_some(), cut });
    }

    pub(crate) fn get(&self, index: u32) -> Option<QuarantinedMessage<'_>> {
        let place = self.places.get(index as usize)?;
        let begin = match (index as usize).checked_sub(1) {
            Some(before) => self.places[before].payload_end,
            None => 0,
        };
        let topic = std::str::from_utf8(&self.bytes[begin as usize..place.topic_end as usize]).ok();
        Some(QuarantinedMessage {
            topic: topic.filter(|_| place.has_topic),
            payload: &self.bytes[place.topic_end as usize..place.payload_end as usize],
            cut: place.cut,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_found_as_it_was_received() {
        let mut slice = Slice::new();
        let long = vec![b'x'; QUARANTINED_PAYLOAD_BYTES_MAX + 1];
        for (topic, payload) in
            [(Some("sensors"), &b"1"[..]), (None, b""), (Some(""), b"\xff"), (None, &long)]
        {
            slice.push_refused(Problem::unreadable("x"), Received { payload, topic });
        }
        let (_, refused, kept) = slice.into_parts();
        assert_eq!(refused.iter().map(|refused| refused.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let told = |index| kept.get(index).map(|kept| (kept.topic, kept.payload.len(), kept.cut));
        assert_eq!(told(0), Some((Some("sensors"), 1, false)));
        assert_eq!(told(1), Some((None, 0, false)));
        assert_eq!(told(2), Some((Some(""), 1, false)));
        assert_eq!(told(3), Some((None, QUARANTINED_PAYLOAD_BYTES_MAX, true)));
        assert_eq!(told(4), None);
    }
}
