//! QoS 2: packet ids of publishes that were taken and that the client has not released yet.
//!
//! A publish that comes again under such an id has no second effect. The ids outlive the connection
//! with the session, as far as their publishes are durable: of what is not, nothing was promised. A
//! client that lost its own part of the session, as after a restart, counts ids from the beginning.
//! So other content under an id of an earlier connection is a new publish.

/// The ids in use, in order.
#[derive(Debug, Default)]
pub(super) struct Qos2Exchanges(Vec<Qos2Exchange>);

#[derive(Clone, Copy, Debug)]
struct Qos2Exchange {
    packet_id: u16,
    /// The publish is durable, and its PUBREC was written.
    received: bool,
    /// It came over an earlier connection.
    inherited: bool,
    /// A hash of what was published.
    content: u64,
}

/// What a publish under an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishStart {
    New,
    /// New, and what an earlier connection left under the id is forgotten.
    Instead,
    /// One that was taken before.
    Repeat,
    /// More than may be under way.
    TooMany,
}

/// What a PUBREL came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PubrelOutcome {
    Done,
    /// Nothing was taken under the id, or it was released before.
    Unknown,
    /// Its PUBREC was not written yet, so the client cannot have it.
    TooEarly,
}

impl Qos2Exchanges {
    /// Takes a publish under an id, if fewer than `max` are under way. `content` is a hash of it.
    pub(super) fn begin(&mut self, packet_id: u16, content: u64, max: usize) -> PublishStart {
        let new = Qos2Exchange { packet_id, received: false, inherited: false, content };
        match self.find(packet_id) {
            Ok(at) if self.0[at].inherited && self.0[at].content != content => {
                self.0[at] = new;
                PublishStart::Instead
            }
            Ok(_) => PublishStart::Repeat,
            Err(_) if self.0.len() >= max => PublishStart::TooMany,
            Err(at) => {
                self.0.insert(at, new);
                PublishStart::New
            }
        }
    }

    /// The publish is durable and its PUBREC is written.
    pub(super) fn received(&mut self, packet_id: u16) {
        if let Ok(at) = self.find(packet_id) {
            self.0[at].received = true;
        }
    }

    /// The publish was refused with a reason that frees the id (MQTT 5).
    pub(super) fn refused(&mut self, packet_id: u16) {
        if let Ok(at) = self.find(packet_id) {
            self.remove(at);
        }
    }

    pub(super) fn is_received(&self, packet_id: u16) -> bool {
        self.find(packet_id).is_ok_and(|at| self.0[at].received)
    }

    /// The client has the PUBREC and will not repeat the publish.
    pub(super) fn release(&mut self, packet_id: u16) -> PubrelOutcome {
        match self.find(packet_id) {
            Ok(at) if self.0[at].received => {
                self.remove(at);
                PubrelOutcome::Done
            }
            Ok(_) => PubrelOutcome::TooEarly,
            Err(_) => PubrelOutcome::Unknown,
        }
    }

    /// What outlives the connection.
    pub(super) fn durable(mut self) -> Self {
        self.0.retain(|exchange| exchange.received);
        self.0.iter_mut().for_each(|exchange| exchange.inherited = true);
        self.0.shrink_to_fit();
        self
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    fn find(&self, packet_id: u16) -> Result<usize, usize> {
        self.0.binary_search_by_key(&packet_id, |exchange| exchange.packet_id)
    }

    fn remove(&mut self, at: usize) {
        self.0.remove(at);
        if self.0.is_empty() {
            // An idle connection holds no buffer.
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_in_use_from_its_publish_to_its_release() {
        let mut exchanges = Qos2Exchanges::default();
        assert_eq!(exchanges.begin(7, 1, 2), PublishStart::New);
        assert_eq!(exchanges.begin(7, 1, 2), PublishStart::Repeat);
        assert_eq!(exchanges.release(7), PubrelOutcome::TooEarly);
        exchanges.received(7);
        assert_eq!((exchanges.is_received(7), exchanges.begin(7, 2, 2)), (true, PublishStart::Repeat));
        assert_eq!(exchanges.release(7), PubrelOutcome::Done);
        assert_eq!(exchanges.release(7), PubrelOutcome::Unknown);
        assert_eq!(exchanges.begin(7, 1, 2), PublishStart::New);
        exchanges.refused(7);
        assert_eq!((exchanges.is_received(7), exchanges.len(), exchanges.bytes()), (false, 0, 0));
    }

    #[test]
    fn no_more_than_the_window_is_under_way() {
        let mut exchanges = Qos2Exchanges::default();
        let begun: Vec<_> = [3, 1, 2, 1].map(|id| exchanges.begin(id, 0, 2)).into();
        assert_eq!(
            begun,
            [PublishStart::New, PublishStart::New, PublishStart::TooMany, PublishStart::Repeat]
        );
    }

    #[test]
    fn only_what_is_durable_outlives_the_connection() {
        let mut exchanges = Qos2Exchanges::default();
        for id in [9, 4, 6] {
            exchanges.begin(id, 0, 9);
        }
        exchanges.received(4);
        let mut kept = exchanges.durable();
        assert_eq!(
            [9, 4, 6].map(|id| kept.begin(id, 0, 9)),
            [PublishStart::New, PublishStart::Repeat, PublishStart::New]
        );
    }

    #[test]
    fn a_client_that_lost_its_part_of_the_session_loses_no_publish() {
        let mut exchanges = Qos2Exchanges::default();
        for id in [1, 2] {
            exchanges.begin(id, 0xa, 9);
            exchanges.received(id);
        }
        let mut kept = exchanges.durable();
        assert_eq!(
            [(1, 0xa), (2, 0xb), (2, 0xc)].map(|(id, content)| kept.begin(id, content, 9)),
            [PublishStart::Repeat, PublishStart::Instead, PublishStart::Repeat]
        );
        assert!(kept.is_received(1) && !kept.is_received(2));
    }
}
