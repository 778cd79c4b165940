//! Room for the pages of lists that are made or on their way: a caller that asks for many and reads none would otherwise have all
//! of them kept for it.
//!
//! As much as a page may take is set aside before it is read, and what it turns out not to take is given back. The rest is given
//! back when the page has left, or its connection is gone.

use axum::body::{Body, HttpBody};
use axum::response::Response;
use base::answers::TakenFrom;
use http_body_util::BodyExt;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;

use crate::shares::{Share, Shares, Whose};

/// Room for all of them, in bytes.
const BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// Of it, for one caller: two of the largest pages.
const SHARE_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Room is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;

/// The room.
#[derive(Debug)]
pub struct HeldPages {
    all: Share,
    shares: Shares,
    held: Gauge,
}

/// What is set aside for one page; given back when this is dropped.
#[derive(Debug)]
pub struct HeldPage {
    /// Of the share, and of all.
    units: [OwnedSemaphorePermit; 2],
    from: TakenFrom,
    held: Gauge,
}

impl Default for HeldPages {
    fn default() -> Self {
        let shares = Shares::new(SHARE_BYTES_MAX / UNIT_BYTES);
        Self { all: Share::new(BYTES_MAX / UNIT_BYTES), shares, held: Gauge::default() }
    }
}

impl HeldPages {
    /// Puts its metrics into the registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Memory set aside for pages of lists that are made or on their way";
        registry.register("fieldpost_http_page_held_bytes", help, self.held.clone());
    }

    /// Room for a page that may take so many bytes, once there is some.
    pub async fn room(&self, whose: &Whose, bytes: usize) -> HeldPage {
        let (units, own) = ((bytes.min(SHARE_BYTES_MAX) / UNIT_BYTES) as u32, self.shares.of(whose));
        // Who waits for its own share holds nothing that others wait for.
        let units = [own.take(units).await, self.all.take(units).await];
        let from = TakenFrom([own.wanted().clone(), self.all.wanted().clone()]);
        let page = HeldPage { units, from, held: self.held.clone() };
        page.held.inc_by(page.bytes());
        page
    }
}

impl HeldPage {
    /// Holds what the answer takes until it has left.
    #[must_use]
    pub fn until_sent(mut self, mut response: Response) -> Response {
        let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
        let before = self.bytes();
        for units in &mut self.units {
            let spare = units.num_permits().saturating_sub(bytes.div_ceil(UNIT_BYTES));
            drop(units.split(spare));
        }
        self.held.dec_by(before - self.bytes());
        response.extensions_mut().insert(self.from.clone());
        response.map(|body| {
            Body::new(body.map_err(move |error| {
                // Never more than a name for it: the closure owns the page as long as the body lives.
                let _page = &self;
                error
            }))
        })
    }

    fn bytes(&self) -> i64 {
        (self.units[0].num_permits() * UNIT_BYTES) as i64
    }
}

impl Drop for HeldPage {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_page_holds_what_it_takes_until_it_has_left() {
        let pages = HeldPages::default();
        let page = pages.room(&Whose::Unknown, 8_000 * 1_024).await;
        assert_eq!(pages.held.get(), 8_000 * 1_024);
        let response = page.until_sent(Response::new(Body::from(vec![b' '; 100_000])));
        assert_eq!(pages.held.get(), 98 * 1_024);
        assert_eq!(response.body().size_hint().exact(), Some(100_000));
        drop(response);
        assert_eq!(pages.held.get(), 0);
        assert_eq!(pages.all.free(), BYTES_MAX / UNIT_BYTES);
    }

    #[tokio::test]
    async fn a_caller_has_a_share_of_it_and_who_waits_is_noticed() {
        let (pages, own, other) = (HeldPages::default(), Whose::Token("a".into()), Whose::Token("b".into()));
        let held = pages.room(&own, SHARE_BYTES_MAX).await;
        let from = held.from.clone();
        let mut response = held.until_sent(Response::new(Body::from(vec![b' '; SHARE_BYTES_MAX])));
        assert!(response.extensions_mut().remove::<TakenFrom>().is_some());
        assert!(!from.is_wanted());
        let mut waiting = pin!(pages.room(&own, UNIT_BYTES));
        assert!(waiting.as_mut().now_or_never().is_none() && from.is_wanted());
        let others: Vec<_> = join_all((0..3).map(|n| {
            let whose = Whose::Token(format!("{n}").into());
            async { pages.room(&{ whose }, SHARE_BYTES_MAX).await }
        }))
        .await;
        assert!(pages.room(&other, UNIT_BYTES).now_or_never().is_none(), "there is no more of it");
        drop(others);
        drop(response);
        drop(waiting.await);
        assert!(!from.is_wanted());
        assert_eq!((pages.all.free(), pages.held.get()), (BYTES_MAX / UNIT_BYTES, 0));
    }
}
