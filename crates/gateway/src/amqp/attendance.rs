//! When the way in is attended: while the consumer keeps up with the queue.
//!
//! A report that waits in the queue is a sign of life that we have not heard yet. So silence must
//! not be counted before it is taken. To begin, the queue has to be seen empty, with everything
//! that was delivered before durable. From then on what is newest among the durable may be at most
//! a lag limit old. That is known from looks at the queue. When as many messages as waited at a
//! look have been settled after it, everything published before that look is. Behind the limit, the
//! queue has to be seen empty again.
//!
//! Pure: a step is a call, time an argument.

use std::collections::VecDeque;
use std::time::Duration;

use base::Timestamp;

use super::limits::LOOKS_MAX;

/// What RabbitMQ said of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// When it was asked.
    pub(super) at: Timestamp,
    /// Messages that had not been delivered to anyone. Those that had been, we have received by the
    /// time the answer is here.
    pub(super) waiting: u32,
    /// Consumers of the queue, we among them.
    pub(super) consumers: u32,
}

/// Whether we keep up, over one connection after the other.
#[derive(Debug)]
pub(super) struct Attendance {
    lag_max: Duration,
    /// Messages of this connection.
    received: u64,
    /// Those of them that are durable. They become so in order.
    settled: u64,
    /// The newest look, until all that was received before it has been taken in.
    unplaced: Option<Look>,
    /// Looks that wait for messages to be settled, both times and positions ascending.
    placed: VecDeque<PlacedLook>,
    /// Everything that was published before this moment is durable.
    heard_until: Timestamp,
    caught_up: bool,
}

/// A look, and how many messages must be settled so that none is left that waited then.
#[derive(Clone, Copy, Debug)]
struct PlacedLook {
    at: Timestamp,
    position: u64,
    was_empty: bool,
}

impl Attendance {
    /// Unattended; what was published before `now` is not our concern.
    pub(super) fn new(lag_max: Duration, now: Timestamp) -> Self {
        Self {
            lag_max,
            received: 0,
            settled: 0,
            unplaced: None,
            placed: VecDeque::new(),
            heard_until: now,
            caught_up: false,
        }
    }

    /// A connection begins or is lost: RabbitMQ sends again what was not acknowledged, at any
    /// moment.
    pub(super) fn start_again(&mut self) {
        *self = Self::new(self.lag_max, self.heard_until);
    }

    /// Messages were taken from the connection.
    pub(super) fn receive(&mut self, messages: u64) {
        self.received += messages;
    }

    /// The oldest messages that were not are durable now.
    pub(super) fn settle(&mut self, messages: u64) {
        self.settled += messages;
        self.pass_looks();
    }

    /// The queue was looked at. While others consume from it, reports go past us, so that such a
    /// look says nothing.
    pub(super) fn look(&mut self, look: Look) {
        self.unplaced = (look.consumers <= 1).then_some(look);
    }

    /// Whether it matters that [`Attendance::drained`] is told.
    pub(super) fn awaits_drain(&self) -> bool {
        self.unplaced.is_some()
    }

    /// Everything that has arrived has been taken in.
    pub(super) fn drained(&mut self) {
        let Some(Look { at, waiting, .. }) = self.unplaced.take() else { return };
        let position = self.received + u64::from(waiting);
        // Fewer wait than an older look promised: messages expired or were purged.
        while self.placed.pop_back_if(|older| older.position >= position).is_some() {}
        if self.placed.len() < LOOKS_MAX {
            self.placed.push_back(PlacedLook { at, position, was_empty: waiting == 0 });
        }
        self.pass_looks();
    }

    fn pass_looks(&mut self) {
        let settled = self.settled;
        while let Some(look) = self.placed.pop_front_if(|look| look.position <= settled) {
            self.heard_until = look.at;
            self.caught_up |= look.was_empty;
        }
    }

    /// Whether the way in is attended at this moment.
    pub(super) fn attended(&mut self, now: Timestamp) -> bool {
        self.caught_up &= self.lag(now) <= self.lag_max;
        self.caught_up
    }

    /// For how long a report may have waited unheard.
    pub(super) fn lag(&self, now: Timestamp) -> Duration {
        now.since(self.heard_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_MAX: Duration = Duration::from_secs(10);

    /// Plays steps, one a word, and gives the seconds of lag, with `+` while attended. `12` is the
    /// time in seconds from here on, `r5` five messages received, `s5` settled, `l5` a look with
    /// five waiting. `d` is drained, `x` a new connection, and `?` asks.
    fn play(steps: &str) -> String {
        let mut attendance = Attendance::new(LAG_MAX, Timestamp(0));
        let (mut now, mut told) = (Timestamp(0), Vec::new());
        for step in steps.split_whitespace() {
            let number = || step[1..].parse::<u64>().expect("a number");
            match &step[..1] {
                "r" => attendance.receive(number()),
                "s" => attendance.settle(number()),
                "l" => attendance.look(Look { at: now, waiting: number() as u32, consumers: 1 }),
                "o" => attendance.look(Look { at: now, waiting: number() as u32, consumers: 2 }),
                "d" => attendance.drained(),
                "x" => attendance.start_again(),
                "?" => {
                    let sign = if attendance.attended(now) { "+" } else { "" };
                    told.push(format!("{}{sign}", attendance.lag(now).as_secs()));
                }
                _ => now = Timestamp(step.parse::<i64>().expect("seconds") * 1_000),
            }
        }
        told.join(" ")
    }

    fn check(steps: &str, expect: &str) {
        assert_eq!(play(steps), expect, "{steps}");
    }

    #[test]
    fn an_empty_queue_is_attended_once_all_that_was_delivered_is_durable() {
        check("3 ?", "3");
        check("3 l0 ? d ?", "3 0+");
        check("3 l0 r2 d ? s1 ? s1 ?", "3 3 0+");
    }

    #[test]
    fn what_arrived_before_the_look_counts_even_if_it_is_taken_in_after_it() {
        check("3 r1 s1 l0 r4 d ? s3 ? 4 s1 ?", "3 3 1+");
    }

    #[test]
    fn a_backlog_is_worked_off_until_the_queue_is_seen_empty() {
        check("1 l9 d r5 s5 ? r4 s4 ? 2 l0 d ?", "1 0 0+");
    }

    #[test]
    fn a_queue_that_is_never_empty_stays_attended_while_its_reports_are_fresh() {
        check("0 l0 d ? 5 l9 d r1 s1 6 l9 d ? r8 s8 ? 12 ? r1 s1 ? 17 ?", "0+ 6+ 1+ 7+ 6+ 11");
    }

    #[test]
    fn behind_the_limit_the_queue_has_to_be_seen_empty_again() {
        check("0 l0 d 10 ? 11 ? l3 d r3 s3 ? 12 l0 d ?", "10+ 11 0 0+");
    }

    #[test]
    fn a_new_connection_begins_unattended() {
        check("0 l0 d r5 ? x ? 3 l0 ? r5 d ? s5 ?", "0+ 0 3 3 0+");
        check("0 l0 x d ?", "0");
    }

    #[test]
    fn an_empty_look_that_was_answered_long_ago_does_not_count() {
        check("0 l0 r1 d 11 s1 ? 12 l0 d ?", "11 0+");
    }

    #[test]
    fn messages_that_vanish_from_the_queue_are_not_waited_for() {
        check("0 l0 d 1 l1000 d 2 l5 d r5 s5 3 ?", "1+");
        check("0 l0 d 1 l1000 d 2 l0 d ?", "0+");
    }

    #[test]
    fn looks_while_others_consume_say_nothing() {
        check("0 o0 d ? 3 l0 d ? 12 o0 d ? 14 o0 d ?", "0 0+ 9+ 11");
    }

    #[test]
    fn looks_are_bounded() {
        let mut attendance = Attendance::new(LAG_MAX, Timestamp(0));
        for at in 0..1_000 {
            attendance.look(Look { at: Timestamp(at), waiting: 10 + at as u32, consumers: 1 });
            attendance.drained();
        }
        assert_eq!(attendance.placed.len(), LOOKS_MAX);
        attendance.settle(10);
        assert_eq!(attendance.heard_until, Timestamp(0));
        attendance.settle(1_000);
        assert_eq!(attendance.heard_until, Timestamp(LOOKS_MAX as i64 - 1));
    }
}
