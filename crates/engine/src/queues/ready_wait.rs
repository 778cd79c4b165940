//! Signals of several queues, of which a consumer waits for the first.
//!
//! A partition tells one consumer that a queue has something, and nobody else before that one
//! passes on what it leaves. So whoever waits here passes on, also when it goes away while a signal
//! is held back until its batch is durable. Where it was not told it also leaves its place among
//! those that wait.

use base::Timestamp;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::consuming::ReturnPath;
use super::{QueueInput, QueueName};

/// The queues that a consumer waits for. When it is dropped, those that had something tell whoever
/// else waits for them.
#[derive(Debug, Default)]
pub(super) struct ReadyWait {
    waits: Vec<Wait>,
    /// The place of the queue that signalled first.
    first: Option<usize>,
}

#[derive(Debug)]
struct Wait {
    queue: QueueName,
    until: Timestamp,
    back: ReturnPath,
    signal: oneshot::Receiver<()>,
}

impl ReadyWait {
    /// Waits for this queue too, once its partition has the input.
    pub(super) fn watch(&mut self, queue: &QueueName, until: Timestamp, back: ReturnPath) -> QueueInput {
        let (signal, receiver) = oneshot::channel();
        self.waits.push(Wait { queue: queue.clone(), until, back, signal: receiver });
        QueueInput::Watch { queue: queue.clone(), until, signal }
    }

    /// Waits until one of them has something; false if it is too late.
    pub(super) async fn ready(&mut self) -> bool {
        let signals = self.waits.iter_mut().map(|wait| &mut wait.signal);
        let (signalled, place, _) = futures_util::future::select_all(signals).await;
        self.first = signalled.is_ok().then_some(place);
        signalled.is_ok()
    }
}

impl Drop for ReadyWait {
    fn drop(&mut self) {
        for (place, Wait { queue, until, back, mut signal }) in self.waits.drain(..).enumerate() {
            // A signal may be on its way. Once the receiver is closed none arrives, and its sender
            // passes nothing on.
            let may_be_signalled = !matches!(signal.try_recv(), Err(TryRecvError::Closed));
            signal.close();
            if self.first == Some(place) {
                back.pass_on(queue);
            } else if may_be_signalled {
                back.left(queue, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// Two queues that are waited for, their signals, and the inbox of both.
    fn waiting() -> (ReadyWait, Vec<oneshot::Sender<()>>, mpsc::Receiver<QueueInput>, mpsc::Sender<QueueInput>)
    {
        let (inbox, inputs) = mpsc::channel(8);
        let mut wait = ReadyWait::default();
        let watch = |name| {
            let queue = QueueName::unchecked("a", name);
            match wait.watch(&queue, Timestamp(9), ReturnPath::to(&inbox)) {
                QueueInput::Watch { signal, .. } => signal,
                other => unreachable!("{other:?}"),
            }
        };
        let signals = ["x", "y"].map(watch).into();
        (wait, signals, inputs, inbox)
    }

    fn passed_on(inputs: &mut mpsc::Receiver<QueueInput>) -> Vec<String> {
        let names = std::iter::from_fn(|| match inputs.try_recv() {
            Ok(QueueInput::PassOn(queue)) => Some(queue.queue().to_owned()),
            Ok(QueueInput::Left { queue, until }) => Some(format!("{} until {}", queue.queue(), until.0)),
            _ => None,
        });
        names.collect()
    }

    #[test]
    fn whoever_goes_away_before_a_signal_arrives_passes_on_what_it_would_have_told() {
        let (wait, signals, mut inputs, _inbox) = waiting();
        drop(wait);
        assert_eq!(passed_on(&mut inputs), ["x until 9", "y until 9"]);
        assert!(signals.into_iter().all(|signal| signal.send(()).is_err()), "nobody hears it any more");
    }

    #[tokio::test]
    async fn whoever_was_told_passes_on_what_it_leaves() {
        let (mut wait, mut signals, mut inputs, _inbox) = waiting();
        let (_x, y) = (signals.remove(0), signals.remove(0));
        y.send(()).expect("somebody waits");
        assert!(wait.ready().await);
        drop(wait);
        assert_eq!(passed_on(&mut inputs), ["x until 9", "y"]);
    }

    #[tokio::test]
    async fn whoever_was_sent_home_passes_on_nothing() {
        let (mut wait, signals, mut inputs, _inbox) = waiting();
        drop(signals);
        assert!(!wait.ready().await);
        drop(wait);
        assert_eq!(passed_on(&mut inputs), [] as [&str; 0]);
    }
}
