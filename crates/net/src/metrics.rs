//! Metrics that more than one edge counts with, and the text of all.

use std::sync::{Arc, Mutex};

use base::Problem;
use base::locks::locked;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A counter for each value of a label. The values are written in the code, senders choose none.
#[derive(Clone, Debug)]
pub struct LabelCounter {
    label: &'static str,
    family: Family<[(&'static str, &'static str); 1], Counter>,
}

impl LabelCounter {
    /// Counted under the label `label`.
    #[must_use]
    pub fn new(label: &'static str) -> Self {
        Self { label, family: Family::default() }
    }

    /// One more of this value.
    pub fn count(&self, value: &'static str) {
        self.family.get_or_create(&[(self.label, value)]).inc();
    }

    /// Puts the counters into the registry.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }

    /// The counter of one value, for one that is counted often.
    #[must_use]
    pub fn counter(&self, value: &'static str) -> Counter {
        self.family.get_or_create_owned(&[(self.label, value)])
    }
}

/// A gauge counts this as long as it lives.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    /// Counted from now on.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The text form that Prometheus reads, by its name in content types.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics in that form. Collectors look at the store, so this is a read too; but it waits for
/// no other.
///
/// # Errors
/// 503 when the server is stopping.
///
/// # Panics
/// When a collector does.
pub async fn text(registry: &Arc<Mutex<Registry>>) -> Result<String, Problem> {
    let registry = Arc::clone(registry);
    let encoding = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let registry = locked(&registry);
        encode(&mut text, &registry).expect("a String takes every write");
        text
    });
    match encoding.await {
        Ok(text) => Ok(text),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Problem::unavailable("the server is stopping")),
    }
}
