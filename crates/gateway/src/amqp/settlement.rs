//! What RabbitMQ is told about messages that are durable: runs of tags, acknowledged or rejected,
//! in order of delivery.
//!
//! A run names only its last tag and stands for everything before it that is not settled yet. So
//! runs are told strictly in order, and one is added only when everything before it is durable too.

use std::collections::VecDeque;

/// A delivery tag: RabbitMQ counts the deliveries of a channel.
pub(super) type Tag = u64;

/// What becomes of a message at RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AmqpSettlement {
    /// Its report is durable.
    Acknowledge,
    /// It was refused and is in the quarantine: a dead-letter exchange may have it too.
    Reject,
}

/// One frame to RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    pub(super) verdict: AmqpSettlement,
    /// The newest message that it is about; it is about all before it as well.
    pub(super) up_to: Tag,
    /// How many messages that is.
    pub(super) messages: u64,
}

/// Settlements that have not been sent. Never more than messages that RabbitMQ sent ahead.
#[derive(Debug, Default)]
pub(super) struct Unsent(VecDeque<Settlement>);

impl Unsent {
    /// Adds the next messages, all of them durable. `rejected` are places in `tags`, in ascending
    /// order.
    pub(super) fn add(&mut self, tags: &[Tag], rejected: impl IntoIterator<Item = u32>) {
        let mut rejected = rejected.into_iter().peekable();
        for (place, tag) in (0..).zip(tags) {
            let is_rejected = rejected.next_if_eq(&place).is_some();
            self.add_one(
                if is_rejected { AmqpSettlement::Reject } else { AmqpSettlement::Acknowledge },
                *tag,
            );
        }
    }

    fn add_one(&mut self, verdict: AmqpSettlement, tag: Tag) {
        match self.0.back_mut() {
            Some(last) if last.verdict == verdict => {
                debug_assert!(last.up_to < tag, "tags come in order");
                last.up_to = tag;
                last.messages += 1;
            }
            _ => self.0.push_back(Settlement { verdict, up_to: tag, messages: 1 }),
        }
    }

    /// The next one to send.
    pub(super) fn next(&mut self) -> Option<Settlement> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(unsent: &mut Unsent) -> Vec<(char, Tag, u64)> {
        let letter = |verdict| if verdict == AmqpSettlement::Acknowledge { 'a' } else { 'r' };
        std::iter::from_fn(|| unsent.next()).map(|s| (letter(s.verdict), s.up_to, s.messages)).collect()
    }

    #[test]
    fn runs_are_told_once_and_in_order() {
        let check = |slices: &[(&[Tag], &[u32])], expect: &[(char, Tag, u64)]| {
            let mut unsent = Unsent::default();
            for (tags, rejected) in slices {
                unsent.add(tags, rejected.iter().copied());
            }
            assert_eq!(told(&mut unsent), expect);
        };
        check(&[], &[]);
        check(&[(&[1, 2, 3], &[])], &[('a', 3, 3)]);
        check(&[(&[1, 2], &[]), (&[3], &[]), (&[4, 5], &[])], &[('a', 5, 5)]);
        check(&[(&[1, 2, 3], &[0, 1, 2])], &[('r', 3, 3)]);
        check(
            &[(&[1, 2, 3, 4], &[1]), (&[5, 6], &[0, 1])],
            &[('a', 1, 1), ('r', 2, 1), ('a', 4, 2), ('r', 6, 2)],
        );
    }

    proptest! {
        /// Played back at a queue, the runs settle every message with its own verdict.
        #[test]
        fn every_message_gets_its_own_verdict(
            slices in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..6), 0..8),
            sent_after in any::<u8>(),
        ) {
            let mut unsent = Unsent::default();
            let (mut next_tag, mut expect, mut settled) = (1, Vec::<bool>::new(), Vec::new());
            let mut play = |unsent: &mut Unsent| while let Some(run) = unsent.next() {
                let before = settled.len();
                settled.resize(run.up_to as usize, run.verdict == AmqpSettlement::Reject);
                assert_eq!((settled.len() - before) as u64, run.messages);
            };
            for (number, slice) in slices.iter().enumerate() {
                let tags: Vec<Tag> = (next_tag..).take(slice.len()).collect();
                next_tag += slice.len() as Tag;
                unsent.add(&tags, (0..).zip(slice).filter(|(_, bad)| **bad).map(|(place, _)| place));
                expect.extend(slice);
                if sent_after >> number & 1 == 1 {
                    play(&mut unsent);
                }
            }
            play(&mut unsent);
            prop_assert_eq!(settled, expect);
        }
    }
}
