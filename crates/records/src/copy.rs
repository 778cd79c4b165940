//! A copy of a stream: to which stream of which node its messages are given on, or from which they
//! are taken. Also how far that has come.

use base::{Incarnation, Timestamp};

use crate::ReportsCopy;
use crate::weight::{RECORD_BYTES, weighs};

/// A copy. It belongs to one stream, and goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCopy {
    /// The stream.
    pub stream: Incarnation,
    /// Its name among those of the stream.
    pub name: Box<str>,
    /// Whether it gives messages of the stream on, or takes messages into it.
    pub direction: CopyDirection,
    /// The node at the other end, by its name here; `self` is this one.
    pub node: Box<str>,
    /// The stream at the other end: its namespace.
    pub other_namespace: Box<str>,
    /// And its name there.
    pub other_name: Box<str>,
    /// Only messages of these segments are copied; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Thousandths of its rate that new messages get while it is far behind; 0 is none.
    pub live_permille: u32,
    /// Bytes in a second at most; `None` without a bound.
    pub rate: Option<u64>,
    /// It rests until it is resumed.
    pub paused: bool,
    /// Where it was begun: a copy `to` a stream that was made anew begins here again.
    pub start: u64,
    /// Where it begins at the other end, as long as that was not asked for.
    pub begins: Option<CopyBegin>,
    /// Every message up to this id, of the stream that it reads, is durable at the other end.
    pub position: u64,
    /// Messages that went ahead of the others.
    pub live: Option<LiveLane>,
    /// What the stream at the other end calls itself, which its positions are true of. `None`
    /// before the first answer.
    pub peer: Option<Box<str>>,
    /// What the node at the other end calls itself.
    pub peer_node: Option<Box<str>>,
    /// When the stream at the other end was last seen to be another one.
    pub reset_at: Option<Timestamp>,
    /// Messages that were new at the other end.
    pub copied: u64,
    /// Messages that were there already.
    pub duplicates: u64,
    /// Messages that went before they were copied.
    pub dropped: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// It is of kind `reports`: its messages are reports of devices, and go to the node itself, not
    /// to a stream of it.
    pub reports: Option<Box<ReportsCopy>>,
}

weighs!(StreamCopy: |copy| 2 * RECORD_BYTES + copy.text_bytes());

/// Where messages of a copy go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// From the stream to another.
    To,
    /// From another into the stream.
    From,
}

base::names! {
    /// Both directions.
    pub CopyDirection: To = "to", From = "from"
}

/// Where a copy begins in a stream at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBegin {
    /// Behind its newest message.
    End,
    /// At the first message that was received no earlier.
    Time(Timestamp),
}

/// Messages that are copied ahead of older ones: those behind `from` up to `position` are durable
/// at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveLane {
    /// The newest message when it was begun.
    pub from: u64,
    /// Never before `from`.
    pub position: u64,
}

/// Another node, as this one reaches it. In the registry.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerNode {
    /// Its name here.
    pub name: Box<str>,
    /// The root of its API.
    pub url: Box<str>,
    /// What is shown to it; `None` where everything is open.
    pub token: Option<Box<str>>,
    /// When it was made.
    pub created_at: Timestamp,
}

weighs!(PeerNode: |node| node.text_bytes());

impl std::fmt::Debug for PeerNode {
    /// Without the token: it is never to reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerNode").field("name", &self.name).field("url", &self.url).finish()
    }
}

impl PeerNode {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.name.len() + self.url.len() + self.token.as_ref().map_or(0, |token| token.len())
    }
}

impl StreamCopy {
    /// The node that stands for this one.
    pub const SELF: &'static str = "self";

    /// A copy of everything, at the start.
    #[must_use]
    pub fn begin(
        (stream, name): (Incarnation, &str),
        direction: CopyDirection,
        (node, other_namespace, other_name): (&str, &str, &str),
        created_at: Timestamp,
    ) -> Self {
        Self {
            stream,
            name: name.into(),
            direction,
            node: node.into(),
            other_namespace: other_namespace.into(),
            other_name: other_name.into(),
            segments: Vec::new(),
            live_permille: 0,
            rate: None,
            paused: false,
            start: 0,
            begins: None,
            position: 0,
            live: None,
            peer: None,
            peer_node: None,
            reset_at: None,
            copied: 0,
            duplicates: 0,
            dropped: 0,
            created_at,
            reports: None,
        }
    }

    /// Whether what it has not taken is kept for it.
    #[must_use]
    pub fn holds_messages(&self) -> bool {
        self.direction == CopyDirection::To && !self.paused
    }

    /// Names the reports that are gathered for it, if it is of kind `reports`.
    #[must_use]
    pub fn gather(&self) -> Option<Incarnation> {
        self.reports.as_ref().map(|reports| reports.gather)
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let optional = [&self.peer, &self.peer_node].into_iter().flatten().map(|text| text.len());
        let names = self.name.len() + self.node.len() + self.other_namespace.len() + self.other_name.len();
        let selector = self.reports.as_ref().and_then(|reports| reports.selector.as_ref());
        let segments = self.segments.iter().map(|segment| segment.len() + 2).sum::<usize>();
        names + segments + optional.sum::<usize>() + selector.map_or(0, |text| text.len())
    }

    /// Whether a copy takes the same messages between the same streams, the same way. The one at
    /// the other end is the same by its name alone.
    #[must_use]
    pub fn is_between_those_of(&self, other: &Self) -> bool {
        self.stream == other.stream
            && self.direction == other.direction
            && self.node == other.node
            && self.other_namespace == other.other_namespace
            && self.other_name == other.other_name
            && self.segments == other.segments
            && self.gather() == other.gather()
    }
}
