//! Which publishes of a connection are on their way, and how far each has come.
//!
//! At QoS 1 an answer settles a publish; at QoS 2 it is received, released and completed. A server
//! answers in the order of sending at each step, and whatever comes out of turn is an offence.
//! Publishes leave the window in order too, so that a refused one waits for those before it.

use std::collections::VecDeque;

use super::mqtt_packet::AckKind;

/// See the module.
#[derive(Debug)]
pub(super) struct PublishWindow {
    flights: VecDeque<PublishInFlight>,
    /// How many at the front have had their first answer.
    received: usize,
    next_id: u16,
}

#[derive(Debug)]
struct PublishInFlight {
    packet_id: u16,
    stage: PublishStage,
}

#[derive(Debug)]
enum PublishStage {
    Published,
    Released,
    Settled(PublishEnd),
}

/// How a publish ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishEnd {
    Accepted,
    Refused(String),
}

/// An answer that nobody was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} {packet_id} came out of turn")]
pub(super) struct UnexpectedAck {
    step: AckKind,
    packet_id: u16,
}

impl PublishWindow {
    pub(super) const fn new() -> Self {
        Self { flights: VecDeque::new(), received: 0, next_id: 1 }
    }

    /// One more is published; the result is its packet id.
    pub(super) fn publish(&mut self) -> u16 {
        let packet_id = self.next_id;
        // Packet ids go round without zero.
        self.next_id = packet_id.checked_add(1).unwrap_or(1);
        self.flights.push_back(PublishInFlight { packet_id, stage: PublishStage::Published });
        packet_id
    }

    /// An answer has come; whether the publish is now to be released.
    pub(super) fn answer(
        &mut self,
        step: AckKind,
        packet_id: u16,
        refusal: Option<String>,
    ) -> Result<bool, UnexpectedAck> {
        let settled = refusal.map_or(PublishEnd::Accepted, PublishEnd::Refused);
        let is_release = step == AckKind::Pubrec && settled == PublishEnd::Accepted;
        let flight = match step {
            AckKind::Puback | AckKind::Pubrec => self.flights.get_mut(self.received),
            AckKind::Pubcomp => {
                self.flights.iter_mut().take(self.received).find(|flight| flight.is_released())
            }
        };
        let flight = flight.filter(|flight| flight.packet_id == packet_id);
        let flight = flight.ok_or(UnexpectedAck { step, packet_id })?;
        flight.stage = if is_release { PublishStage::Released } else { PublishStage::Settled(settled) };
        if step != AckKind::Pubcomp {
            self.received += 1;
        }
        Ok(is_release)
    }

    /// The oldest publish, if it is settled; it leaves the window.
    pub(super) fn pop_settled(&mut self) -> Option<PublishEnd> {
        let oldest = self.flights.pop_front_if(|flight| matches!(flight.stage, PublishStage::Settled(_)))?;
        self.received -= 1;
        match oldest.stage {
            PublishStage::Settled(settled) => Some(settled),
            PublishStage::Published | PublishStage::Released => None,
        }
    }
}

impl PublishInFlight {
    const fn is_released(&self) -> bool {
        matches!(self.stage, PublishStage::Released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(publishes: usize) -> PublishWindow {
        let mut window = PublishWindow::new();
        for _ in 0..publishes {
            window.publish();
        }
        window
    }

    fn refused(why: &str) -> PublishEnd {
        PublishEnd::Refused(why.to_owned())
    }

    #[test]
    fn at_qos_1_an_answer_settles_in_order() {
        let mut window = window(3);
        assert_eq!(window.pop_settled(), None);
        assert_eq!(window.answer(AckKind::Puback, 1, None), Ok(false));
        assert_eq!(window.answer(AckKind::Puback, 2, Some("no".to_owned())), Ok(false));
        assert_eq!(
            (window.pop_settled(), window.pop_settled()),
            (Some(PublishEnd::Accepted), Some(refused("no")))
        );
        assert_eq!(window.pop_settled(), None);
        let early = window.answer(AckKind::Puback, 4, None).unwrap_err();
        assert_eq!(early.to_string(), "Puback 4 came out of turn");
        assert!(window.answer(AckKind::Puback, 2, None).is_err(), "it is settled");
    }

    #[test]
    fn at_qos_2_a_refused_one_waits_for_those_before_it() {
        let mut window = window(3);
        assert_eq!(window.answer(AckKind::Pubrec, 1, None), Ok(true));
        assert_eq!(window.answer(AckKind::Pubrec, 2, Some("no".to_owned())), Ok(false), "nothing to release");
        assert_eq!(window.answer(AckKind::Pubrec, 3, None), Ok(true));
        assert_eq!(window.pop_settled(), None);
        assert!(window.answer(AckKind::Pubcomp, 3, None).is_err(), "the first is not completed");
        assert_eq!(window.answer(AckKind::Pubcomp, 1, None), Ok(false));
        assert_eq!(window.answer(AckKind::Pubcomp, 3, None), Ok(false));
        let settled: Vec<_> = std::iter::from_fn(|| window.pop_settled()).collect();
        assert_eq!(settled, [PublishEnd::Accepted, refused("no"), PublishEnd::Accepted]);
        assert!(window.answer(AckKind::Pubcomp, 3, None).is_err());
    }

    #[test]
    fn packet_ids_go_round_without_zero() {
        let mut window = PublishWindow::new();
        let ids: Vec<u16> = (0..65_536).map(|_| window.publish()).collect();
        assert_eq!((ids[0], ids[65_534], ids[65_535]), (1, 65_535, 1));
    }
}
