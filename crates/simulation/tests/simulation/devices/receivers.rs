//! The applications of the owners, as far as a sender meets them: each has a mood, and remembers
//! what it was posted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use base::{DeviceId, EntityId, Incarnation, PartitionId};
use engine::AttemptOutcome;
use engine::records::AttemptError;

use crate::harness::calls::BatchRef;

/// How a receiver behaves at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers 2xx at once.
    Well,
    /// Answers 2xx, but takes its time.
    Slow,
    /// Answers 5xx or 4xx.
    Failing,
    /// Answers 429 or 503 and asks for patience.
    Busy,
    /// Answers 3xx.
    Redirecting,
    /// Answers 410.
    Gone,
    /// Takes the request and never answers.
    Hanging,
    /// Takes the request and does what it says, but the answer is lost.
    Losing,
    /// Nobody listens.
    Down,
    /// One of the others each time.
    Fickle,
}

impl Mood {
    const PLAIN: [Self; 9] = [
        Self::Well,
        Self::Slow,
        Self::Failing,
        Self::Busy,
        Self::Redirecting,
        Self::Gone,
        Self::Hanging,
        Self::Losing,
        Self::Down,
    ];

    /// Well, or not to be reached at all.
    pub(crate) fn plain(random: &mut Random) -> Self {
        [Self::Well, Self::Well, Self::Failing, Self::Down][random.below(4) as usize]
    }

    /// Any mood; half of the time a good one.
    pub(crate) fn any(random: &mut Random) -> Self {
        match random.below(12) {
            0..=5 => Self::Well,
            6 | 7 => Self::Fickle,
            _ => Self::PLAIN[random.below(Self::PLAIN.len() as u64) as usize],
        }
    }
}

/// A request as a receiver sees it.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) client: Incarnation,
    pub(crate) device: DeviceId,
    pub(crate) delivery: EntityId,
    pub(crate) body: Arc<[u8]>,
    /// The batch of the lease.
    pub(crate) batch: BatchRef,
}

/// A request that a receiver took in.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) delivery: EntityId,
    pub(crate) body: Arc<[u8]>,
    /// It was answered 2xx, whether or not the sender heard that.
    pub(crate) accepted: bool,
    batch: BatchRef,
}

/// All receivers.
pub(crate) struct Receivers {
    moods: BTreeMap<String, Mood>,
    timeout: Duration,
    receipts: BTreeMap<(Incarnation, DeviceId), Vec<Receipt>>,
}

impl Receivers {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { moods: BTreeMap::new(), timeout, receipts: BTreeMap::new() }
    }

    pub(crate) fn set_mood(&mut self, client: &str, mood: Mood) {
        self.moods.insert(client.to_owned(), mood);
    }

    /// Everybody is well from now on.
    pub(crate) fn heal(&mut self) {
        self.moods.clear();
    }

    /// What the sender learns of a request, and after how long.
    pub(crate) fn receive(
        &mut self,
        client: &str,
        post: Post,
        random: &mut Random,
    ) -> (Duration, AttemptOutcome) {
        let mut mood = self.moods.get(client).copied().unwrap_or(Mood::Well);
        if mood == Mood::Fickle {
            mood = Mood::PLAIN[random.below(Mood::PLAIN.len() as u64) as usize];
        }
        let (took, answer) = self.answer(mood, random);
        if !matches!(mood, Mood::Down) {
            let accepted = matches!(mood, Mood::Well | Mood::Slow | Mood::Losing);
            let receipt = Receipt { delivery: post.delivery, body: post.body, accepted, batch: post.batch };
            self.receipts.entry((post.client, post.device)).or_default().push(receipt);
        }
        (took, answer)
    }

    fn answer(&self, mood: Mood, random: &mut Random) -> (Duration, AttemptOutcome) {
        let mut one_of = |codes: &[u16]| codes[random.below(codes.len() as u64) as usize];
        let status = |code| AttemptOutcome::Status { code, retry_after: None };
        let timeout_ms = self.timeout.as_millis() as u64;
        let answer = match mood {
            Mood::Well | Mood::Slow => status(one_of(&[200, 201, 202, 204])),
            Mood::Failing => status(one_of(&[400, 404, 500, 502])),
            Mood::Redirecting => status(one_of(&[301, 302, 307, 308])),
            Mood::Gone => status(410),
            Mood::Busy => {
                let code = one_of(&[429, 503]);
                let retry_after = Some(Duration::from_secs(random.below(40)));
                AttemptOutcome::Status { code, retry_after }
            }
            Mood::Hanging => AttemptOutcome::Error(AttemptError::TimedOut),
            Mood::Losing | Mood::Fickle => AttemptOutcome::Error(AttemptError::ConnectionBroken),
            Mood::Down => AttemptOutcome::Error(AttemptError::ConnectFailed),
        };
        let took = match mood {
            Mood::Hanging => timeout_ms,
            Mood::Slow | Mood::Losing => 1 + random.below(timeout_ms - 1),
            _ => 1 + random.below(20),
        };
        (Duration::from_millis(took), answer)
    }

    /// What was posted because of batches of a partition after `seq` was never posted.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        for receipts in self.receipts.values_mut() {
            receipts.retain(|receipt| receipt.batch.0 != partition || receipt.batch.1 <= seq);
        }
    }

    /// What a client was posted of a device, in order.
    pub(crate) fn receipts(&self, client: Incarnation, device: &DeviceId) -> &[Receipt] {
        self.receipts.get(&(client, device.clone())).map_or(&[], Vec::as_slice)
    }

    /// Everything that anybody was posted.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&(Incarnation, DeviceId), &[Receipt])> {
        self.receipts.iter().map(|(who, receipts)| (who, receipts.as_slice()))
    }
}
