//! Copies of what was accepted, of all ways in, for whoever watches: once it is durable, as it was
//! received.
//!
//! What was received of a slice is kept until it is durable anyway, for the quarantine, so this
//! costs nothing while nobody watches.

use base::WayIn;

use super::{Received, ReceivedMessages, Rejection};

/// A message that was accepted and is durable.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// How it came.
    pub way: WayIn,
    /// The connection that it came over, as its way in counts them; 0 if that is not told.
    pub source: u64,
    /// As it was received. A payload over [`base::limits::QUARANTINED_PAYLOAD_BYTES_MAX`] is not
    /// shown.
    pub received: Received<'a>,
}

/// Who is shown what was accepted. Called where outcomes are awaited: it must not wait.
pub trait IntakeMirror: Send + Sync {
    /// Whether anybody watches now.
    fn is_watched(&self) -> bool;

    /// Something was accepted.
    fn show(&self, accepted: Accepted<'_>);
}

/// Shows everything of a slice that is not among the rejected, which are in order.
pub(super) fn show(
    mirror: &dyn IntakeMirror,
    way: WayIn,
    rejected: &[Rejection],
    received: &ReceivedMessages,
) {
    let mut rejected = rejected.iter().map(|rejection| rejection.index).peekable();
    for index in 0..received.len() as u32 {
        if rejected.next_if_eq(&index).is_some() {
            continue;
        }
        let Some(kept) = received.get(index).filter(|kept| !kept.cut) else { continue };
        let received_as = Received { payload: kept.payload, topic: kept.topic };
        mirror.show(Accepted { way, source: received.source, received: received_as });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use base::Problem;
    use base::limits::QUARANTINED_PAYLOAD_BYTES_MAX;

    use super::super::Slice;
    use super::*;

    #[derive(Default)]
    struct Shown(Mutex<Vec<(u64, Option<String>, usize)>>);

    impl IntakeMirror for Shown {
        fn is_watched(&self) -> bool {
            true
        }

        fn show(&self, Accepted { source, received, .. }: Accepted<'_>) {
            let topic = received.topic.map(str::to_owned);
            self.0.lock().expect("no panic").push((source, topic, received.payload.len()));
        }
    }

    #[test]
    fn what_was_accepted_is_shown_as_it_was_received() {
        let mut slice = Slice::from_source(7);
        let long = vec![b'x'; QUARANTINED_PAYLOAD_BYTES_MAX + 1];
        for (topic, payload) in [(Some("a"), &b"1"[..]), (None, b"22"), (None, &long), (Some("b"), b"333")] {
            slice.push_refused(Problem::unreadable("x"), Received { payload, topic });
        }
        let (_, refused, kept) = slice.into_parts();
        let shown = Shown::default();
        show(&shown, WayIn::Http, &refused[1..2], &kept);
        let told = shown.0.into_inner().expect("no panic");
        assert_eq!(told, [(7, Some("a".to_owned()), 1), (7, Some("b".to_owned()), 3)]);
    }
}
