//! How everything stands, for people who look: sampled once a second, and only while somebody does.
//!
//! Whoever asks and every live stream show the same sample. It is made from counters and sums in
//! memory. So its cost grows neither with the fleet nor with the number of those who look.

mod failing;
mod rates;

use std::sync::Mutex;
use std::time::Duration;

use access::Caller;
use axum::body::Bytes;
use base::Problem;
use base::locks::locked;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::ApiState;
use crate::authorization::Visibility;
use crate::shape::OverviewShape;
use rates::RateSamples;

pub(crate) use failing::{Failing, FailingKind};
pub(crate) use rates::PerSecond;

/// Between two samples.
const SAMPLED_EVERY: Duration = Duration::from_secs(1);
/// Between the first two, while whoever asked first waits.
const FIRST_SPAN: Duration = Duration::from_millis(100);
/// For how long samples are made after somebody asked: pages that ask again find one.
const LOOKED_AT_FOR: Duration = Duration::from_secs(10);

/// The overview, once there is one.
type Sample = Option<OverviewTexts>;

/// The overview, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct OverviewTexts {
    all: Bytes,
    /// What is told of the devices, and of nothing that only some may look at.
    of_devices: Bytes,
}

impl OverviewTexts {
    /// As much of it as a caller may see: who sees no queues and no clients is not told of them.
    pub(crate) fn to(&self, caller: Option<&Caller>) -> Bytes {
        match Visibility::of_caller(caller) {
            Visibility::Everything => self.all.clone(),
            Visibility::ItsOwn => self.of_devices.clone(),
        }
    }
}

/// The samples.
#[derive(Debug)]
pub(crate) struct Overview {
    latest: watch::Sender<Sample>,
    looked_at: Mutex<SamplerState>,
}

#[derive(Debug, Default)]
struct SamplerState {
    is_sampled: bool,
    last: Option<Instant>,
}

impl Default for Overview {
    fn default() -> Self {
        Self { latest: watch::Sender::new(None), looked_at: Mutex::default() }
    }
}

impl Overview {
    /// Whether somebody looks, or did lately. Otherwise nothing is sampled from now on.
    fn goes_on(&self) -> bool {
        let mut looked_at = locked(&self.looked_at);
        let lately = looked_at.last.is_some_and(|last| last.elapsed() < LOOKED_AT_FOR);
        looked_at.is_sampled = lately || self.latest.receiver_count() > 0;
        if !looked_at.is_sampled {
            self.latest.send_replace(None);
        }
        looked_at.is_sampled
    }
}

/// The samples from now on, as long as this is kept.
pub(crate) fn follow(api: &ApiState) -> watch::Receiver<Sample> {
    let overview = &api.shared.overview;
    let mut looked_at = locked(&overview.looked_at);
    looked_at.last = Some(Instant::now());
    let samples = overview.latest.subscribe();
    if !std::mem::replace(&mut looked_at.is_sampled, true) {
        tokio::spawn(sample(api.clone()));
    }
    samples
}

/// The latest sample. Who comes first waits for it a tenth of a second.
///
/// # Errors
/// 503 when the server stops.
pub(crate) async fn latest(api: &ApiState) -> Result<OverviewTexts, Problem> {
    let mut samples = follow(api);
    let stopping = || Problem::unavailable("the server is stopping");
    select! {
        sample = samples.wait_for(Option::is_some) => match sample {
            Ok(sample) => (*sample).clone().ok_or_else(stopping),
            Err(_) => Err(stopping()),
        },
        () = api.stopped() => Err(stopping()),
    }
}

async fn sample(api: ApiState) {
    let (overview, engine) = (&api.shared.overview, api.engine());
    let mut rates = RateSamples::begin(Instant::now(), engine.totals());
    let mut pause = FIRST_SPAN;
    loop {
        select! {
            () = sleep(pause) => {}
            () = api.stopped() => {}
        }
        pause = SAMPLED_EVERY;
        rates.add(Instant::now(), engine.totals());
        overview.latest.send_replace(Some(made(&api, &rates)));
        if api.is_stopping() || !overview.goes_on() {
            break;
        }
    }
}

fn made(api: &ApiState, rates: &RateSamples) -> OverviewTexts {
    let (engine, counts) = (api.engine(), api.engine().overview_counts());
    let failing = failing::all(api, &counts);
    let shape = OverviewShape::of(engine.clock().wall(), rates.per_second(), &counts);
    let json = |shape: &OverviewShape<'_>| serde_json::to_vec(shape).expect("an overview is JSON").into();
    let of_devices = json(&shape);
    OverviewTexts { all: json(&shape.with_all(&counts, &failing)), of_devices }
}
