//! One connection at work: takes messages in, hands them in, settles what is durable, and looks at
//! the queue.
//!
//! A loop over what may happen next. What is told to RabbitMQ, and when the way in is attended, is
//! decided elsewhere ([`Unsent`], [`Attendance`]).

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use base::Problem;
use engine::intake::{Received, Slice};
use engine::{Rejection, SliceOutcome};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use lapin::Consumer;
use lapin::message::Delivery;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::attendance::{Attendance, Look};
use super::broker::Broker;
use super::consumer::{AmqpShared, stopped};
use super::ending::AmqpEnding;
use super::in_flight::{InFlightMessages, SettledMessages};
use super::limits::{MESSAGE_BYTES_MAX, SLICE_BYTES_MAX};
use super::settlement::{Settlement, Tag, Unsent};
use crate::decode::{self, DecodeRules};
use crate::metrics::ReportSender;

/// A connection that consumes.
pub(super) struct AmqpSession<'a> {
    shared: &'a AmqpShared,
    attendance: &'a mut Attendance,
    broker: Broker,
    deliveries: Consumer,
    in_flight: InFlightMessages,
    unsent: Unsent,
    sending: Option<BoxFuture<'static, lapin::Result<()>>>,
    looking: Option<BoxFuture<'static, lapin::Result<Look>>>,
    is_attended: bool,
    /// Received and not settled.
    unacknowledged: u64,
}

/// Messages that arrived together.
#[derive(Default)]
struct GatheredMessages {
    slice: Slice,
    tags: Vec<Tag>,
    bytes: usize,
    /// Nothing more has arrived.
    drained: bool,
}

impl<'a> AmqpSession<'a> {
    pub(super) fn new(
        shared: &'a AmqpShared,
        attendance: &'a mut Attendance,
        broker: Broker,
        deliveries: Consumer,
    ) -> Self {
        attendance.start_again();
        shared.metrics.connected.set(1);
        Self {
            shared,
            attendance,
            broker,
            deliveries,
            in_flight: InFlightMessages::default(),
            unsent: Unsent::default(),
            sending: None,
            looking: None,
            is_attended: false,
            unacknowledged: 0,
        }
    }

    /// Works until the connection ends or the server stops; then nothing of it is left open.
    pub(super) async fn run(mut self, shutdown: &mut watch::Receiver<bool>) -> AmqpEnding {
        let ending = match self.work(shutdown).await {
            Ok(never) => match never {},
            Err(ending) => ending,
        };
        self.attendance.start_again();
        self.tell_attendance().await;
        let patience = self.shared.limits.stop_max;
        if timeout(patience, self.wind_up(&ending)).await.is_err() {
            tracing::warn!(
                ?patience,
                "RabbitMQ did not let go in time; it will send again what was not acknowledged"
            );
        }
        ending
    }

    async fn work(&mut self, shutdown: &mut watch::Receiver<bool>) -> Result<Infallible, AmqpEnding> {
        let mut look_again = interval(self.shared.limits.look_every);
        look_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.send_next();
            self.tell_attendance().await;
            let Self { attendance, deliveries, in_flight, sending, looking, shared, .. } = self;
            tokio::select! {
                biased;
                () = stopped(shutdown) => return Err(AmqpEnding::Stopping),
                sent = ready_in(sending) => sent?,
                settled = poll_fn(|cx| in_flight.poll_settled(cx)) => self.settled(settled?),
                look = ready_in(looking) => self.looked(look?),
                _ = look_again.tick() => self.look_again(),
                gathered = poll_fn(|cx| poll_gather(deliveries, shared, attendance.awaits_drain(), cx)), if in_flight.has_room() => {
                    self.take_in(gathered?);
                }
            }
        }
    }

    /// Sends the next settlement unless one is on its way; meanwhile the next ones grow together.
    fn send_next(&mut self) {
        if self.sending.is_some() {
            return;
        }
        if let Some(settlement) = self.unsent.next() {
            self.count_settlement(settlement);
            self.sending = Some(Box::pin(self.broker.clone().settle(settlement)));
        }
    }

    fn look_again(&mut self) {
        if self.looking.is_none() {
            self.looking = Some(Box::pin(self.broker.clone().look(self.shared.engine.clock().clone())));
        }
    }

    fn looked(&mut self, look: Look) {
        let metrics = &self.shared.metrics;
        metrics.queue_messages.set(look.waiting.into());
        let before = metrics.queue_consumers.set(look.consumers.into());
        if look.consumers > 1 && before <= 1 {
            tracing::warn!(
                consumers = look.consumers,
                queue = self.shared.source.queue.as_str(),
                "others consume from the queue too, so that reports go past this server; silence over AMQP is not counted"
            );
        }
        self.attendance.look(look);
    }

    fn take_in(&mut self, gathered: GatheredMessages) {
        let GatheredMessages { slice, tags, drained, .. } = gathered;
        let messages = tags.len() as u64;
        if messages > 0 {
            self.attendance.receive(messages);
            self.unacknowledged += messages;
            self.shared.metrics.unacknowledged.inc_by(messages as i64);
            self.in_flight.hand_in(&self.shared.intake, slice, tags);
        }
        if drained {
            self.attendance.drained();
        }
    }

    fn settled(&mut self, settled: SettledMessages) {
        let SettledMessages { tags, outcome: SliceOutcome { accepted, rejected } } = settled;
        self.attendance.settle(tags.len() as u64);
        let reports = &self.shared.metrics.reports;
        reports.accepted(accepted.into());
        for Rejection { device, problem, .. } in &rejected {
            let (device, topic) = (device.as_ref(), Some(self.shared.source.queue.as_str()));
            // Who published it, RabbitMQ does not tell.
            let sender = ReportSender { device, topic, login: "", client: "", peer: self.broker.peer() };
            reports.refused_from(problem, sender);
        }
        self.unsent.add(&tags, rejected.iter().map(|rejection| rejection.index));
    }

    fn count_settlement(&mut self, settlement: Settlement) {
        self.unacknowledged -= settlement.messages;
        self.shared.metrics.settle(settlement);
    }

    /// Tells the engine when it begins or ends that silence may be counted.
    async fn tell_attendance(&mut self) {
        let now = self.shared.engine.clock().now();
        let is_attended = self.attendance.attended(now);
        self.shared.metrics.lag.set(self.attendance.lag(now).as_secs_f64());
        if is_attended == self.is_attended {
            return;
        }
        self.is_attended = is_attended;
        self.shared.metrics.attended.set(is_attended.into());
        self.shared.intake.attend(is_attended).await;
        if is_attended {
            tracing::info!("the queue was seen empty: silence over AMQP is counted");
        } else {
            tracing::warn!(lag = ?self.attendance.lag(now), "silence over AMQP is not counted until the queue is seen empty");
        }
    }

    /// Ends the connection well, as far as it still goes: on a stop, what is under way becomes
    /// durable and is acknowledged.
    async fn wind_up(&mut self, ending: &AmqpEnding) {
        let ended = match ending {
            AmqpEnding::Stopping => self.finish().await,
            AmqpEnding::NotAccepting(_) => self.broker.close().await.map_err(AmqpEnding::from),
            AmqpEnding::Cancelled | AmqpEnding::TimedOut | AmqpEnding::Broken(_) => return,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "RabbitMQ will send again what was not acknowledged");
        }
    }

    async fn finish(&mut self) -> Result<(), AmqpEnding> {
        self.broker.stop_consuming(self.deliveries.tag()).await?;
        loop {
            self.send_next();
            if self.in_flight.is_empty() && self.sending.is_none() {
                break;
            }
            let Self { in_flight, sending, .. } = self;
            tokio::select! {
                biased;
                sent = ready_in(sending) => sent?,
                settled = poll_fn(|cx| in_flight.poll_settled(cx)) => self.settled(settled?),
            }
        }
        Ok(self.broker.close().await?)
    }
}

impl Drop for AmqpSession<'_> {
    fn drop(&mut self) {
        self.shared.metrics.connected.set(0);
        self.shared.metrics.unacknowledged.dec_by(self.unacknowledged as i64);
    }
}

/// The outcome of what is under way, if anything is; then nothing is any more.
async fn ready_in<T>(under_way: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(future) = under_way else { return pending().await };
    let outcome = future.as_mut().await;
    *under_way = None;
    outcome
}

/// Takes what has arrived, up to a slice. Ready without a message only if that is asked for.
fn poll_gather(
    deliveries: &mut Consumer,
    shared: &AmqpShared,
    even_nothing: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<GatheredMessages, AmqpEnding>> {
    let rules = DecodeRules::of(&shared.engine);
    let mut gathered = GatheredMessages::default();
    while !gathered.is_full() {
        match Pin::new(&mut *deliveries).poll_next(cx) {
            Poll::Ready(Some(Ok(delivery))) => {
                shared.metrics.receive(&delivery);
                gathered.add(&delivery, rules);
            }
            // What was gathered comes again over the next connection.
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
            Poll::Ready(None) => return Poll::Ready(Err(AmqpEnding::Cancelled)),
            Poll::Pending => {
                gathered.drained = true;
                break;
            }
        }
    }
    if gathered.tags.is_empty() && !even_nothing { Poll::Pending } else { Poll::Ready(Ok(gathered)) }
}

impl GatheredMessages {
    fn is_full(&self) -> bool {
        self.tags.len() >= base::limits::SLICE_REPORTS_MAX || self.bytes >= SLICE_BYTES_MAX
    }

    fn add(&mut self, delivery: &Delivery, rules: DecodeRules) {
        self.tags.push(delivery.delivery_tag);
        self.bytes += delivery.data.len();
        let received = Received { payload: &delivery.data, topic: None };
        match report(delivery, rules) {
            Ok(report) => self.slice.push(report, received),
            Err(problem) => self.slice.push_refused(problem, received),
        }
    }
}

fn report(delivery: &Delivery, rules: DecodeRules) -> Result<engine::Report, Problem> {
    if delivery.data.len() > MESSAGE_BYTES_MAX {
        let detail = format!("a message has at most {MESSAGE_BYTES_MAX} bytes, not {}", delivery.data.len());
        return Err(Problem::not_allowed("message_too_large", detail));
    }
    // Libraries that always send the property leave it empty where nobody set it.
    let id = delivery.properties.message_id().as_ref().map(|id| id.as_str()).filter(|id| !id.is_empty());
    decode::object(&delivery.data, id, rules)
}
