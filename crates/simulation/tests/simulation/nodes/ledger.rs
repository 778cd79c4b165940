//! Every message that a client gave, to whom, and what it was answered.

use std::collections::BTreeMap;

use base::Incarnation;

/// A message.
#[derive(Clone, Debug, Default)]
pub(super) struct SentMessage {
    /// What its client calls it, if it does.
    pub(super) origin: Option<(Box<str>, u64)>,
    pub(super) segment: Option<Box<str>>,
    pub(super) given_to: Vec<GivenTo>,
    pub(super) answers: Vec<AnsweredTo>,
}

/// A node was given a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenTo {
    pub(super) node: usize,
    /// The number in the stream's name.
    pub(super) stream: u64,
    pub(super) set_back: u64,
}

/// A node said that it has a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredTo {
    pub(super) node: usize,
    pub(super) image: u64,
    pub(super) stream: Incarnation,
    pub(super) id: u64,
    /// It was to be durable by then.
    pub(super) is_promised: bool,
}

/// All messages, by number.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) messages: BTreeMap<u64, SentMessage>,
    last: u64,
}

impl Ledger {
    /// A new message.
    pub(super) fn add(&mut self, message: SentMessage) -> u64 {
        self.last += 1;
        self.messages.insert(self.last, message);
        self.last
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }
}
