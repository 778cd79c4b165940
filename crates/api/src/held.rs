//! Room for the pages of lists that are made or on their way: a caller that asks for many and reads none would otherwise have all
//! of them kept for it.
//!
//! As much as a page may take is set aside before it is read, and what it turns out not to take is given back. The rest is given
//! back when the page has left, or its connection is gone.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use http_body_util::BodyExt;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for all of them, in bytes.
const BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// Room is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;

/// The room.
#[derive(Debug)]
pub(crate) struct HeldPages {
    units: Arc<Semaphore>,
    held: Gauge,
}

/// What is set aside for one page; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldPage {
    units: OwnedSemaphorePermit,
    held: Gauge,
}

impl Default for HeldPages {
    fn default() -> Self {
        Self { units: Arc::new(Semaphore::new(BYTES_MAX / UNIT_BYTES)), held: Gauge::default() }
    }
}

impl HeldPages {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Memory set aside for pages of lists that are made or on their way";
        registry.register("fieldpost_http_page_held_bytes", help, self.held.clone());
    }

    /// Room for a page that may take so many bytes, once there is some.
    pub(crate) async fn room(&self, bytes: usize) -> HeldPage {
        let units = bytes.min(BYTES_MAX) / UNIT_BYTES;
        let units = Arc::clone(&self.units).acquire_many_owned(units as u32).await;
        let page = HeldPage { units: units.expect("the room is never closed"), held: self.held.clone() };
        page.held.inc_by(page.bytes());
        page
    }
}

impl HeldPage {
    /// Holds what the answer takes until it has left.
    pub(crate) fn until_sent(mut self, response: Response) -> Response {
        let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
        let spare = self.units.num_permits().saturating_sub(bytes.div_ceil(UNIT_BYTES));
        if let Some(spare) = self.units.split(spare) {
            self.held.dec_by((spare.num_permits() * UNIT_BYTES) as i64);
        }
        response.map(|body| {
            Body::new(body.map_err(move |error| {
                // Never more than a name for it: the closure owns the page as long as the body lives.
                let _page = &self;
                error
            }))
        })
    }

    fn bytes(&self) -> i64 {
        (self.units.num_permits() * UNIT_BYTES) as i64
    }
}

impl Drop for HeldPage {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_holds_what_it_takes_until_it_has_left() {
        let pages = HeldPages::default();
        let page = pages.room(8_000 * 1_024).await;
        assert_eq!(pages.held.get(), 8_000 * 1_024);
        let response = page.until_sent(Response::new(Body::from(vec![b' '; 100_000])));
        assert_eq!(pages.held.get(), 98 * 1_024);
        assert_eq!(response.body().size_hint().exact(), Some(100_000));
        drop(response);
        assert_eq!(pages.held.get(), 0);
        assert_eq!(pages.units.available_permits(), BYTES_MAX / UNIT_BYTES);
    }
}
