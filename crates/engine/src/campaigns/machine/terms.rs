//! The terms of picks that anything has: they go with the last that has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::campaigns::TokenUse;
use base::{DeviceId, Incarnation, Problem};
use records::{Op, PickTerms};

use super::CampaignsStep;
use super::token_shares::{Requested, TERMS_BYTES};

/// Bytes of all terms: payloads, lists of devices and selectors of tasks that go on, of ends that
/// are not told, and of campaigns.
pub(super) const TERMS_BYTES_MAX: usize = 512 << 20;

/// Terms, and how many tasks and campaigns have them.
#[derive(Debug, Default)]
pub(super) struct TermsInUse {
    terms: BTreeMap<Incarnation, (Arc<PickTerms>, u32)>,
    bytes: TokenUse,
}

impl TermsInUse {
    /// Terms that were kept before, if anything has them.
    pub(super) fn get(&self, terms: Incarnation) -> Option<Arc<PickTerms>> {
        self.terms.get(&terms).map(|(terms, _)| Arc::clone(terms))
    }

    /// Bytes of all terms.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.all()
    }

    /// Whether there is room for terms of that token with this payload and these devices.
    ///
    /// # Errors
    /// 409, or 429 when the token has its share.
    pub(super) fn check_room(
        &self,
        token: Option<&str>,
        payload: &[u8],
        devices: Option<&[DeviceId]>,
        requested: Requested,
    ) -> Result<(), Problem> {
        let names = devices.unwrap_or(&[]).iter().map(|id| id.as_str().len());
        let more = payload.len() + names.sum::<usize>();
        TERMS_BYTES.check(&self.bytes, (token, more), requested)
    }

    /// Whether there is room for what others held before.
    ///
    /// # Errors
    /// 429 when the token has its share.
    pub(super) fn check_share(
        &self,
        token: Option<&str>,
        terms: &PickTerms,
        requested: Requested,
    ) -> Result<(), Problem> {
        TERMS_BYTES.check_share(&self.bytes, (token, terms.text_bytes()), requested)
    }

    /// Keeps new terms, for one that has them.
    pub(super) fn put(&mut self, terms: PickTerms, step: &mut CampaignsStep<'_>) -> Arc<PickTerms> {
        step.push(Op::PutPickTerms(Box::new(terms.clone())));
        self.hold(Arc::new(terms))
    }

    /// Another one has the terms.
    pub(super) fn hold(&mut self, terms: Arc<PickTerms>) -> Arc<PickTerms> {
        let entry = self.terms.entry(terms.incarnation).or_insert((terms, 0));
        if entry.1 == 0 {
            self.bytes.add(entry.0.token.as_deref(), entry.0.text_bytes());
        }
        entry.1 += 1;
        Arc::clone(&entry.0)
    }

    /// One has them no longer.
    pub(super) fn release(&mut self, terms: Incarnation, step: &mut CampaignsStep<'_>) {
        let Some((kept, users)) = self.terms.get_mut(&terms) else { return };
        *users -= 1;
        if *users == 0 {
            self.bytes.release(kept.token.as_deref(), kept.text_bytes());
            self.terms.remove(&terms);
            step.push(Op::DeletePickTerms(terms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaigns::NewPickTerms;

    #[test]
    fn terms_count_once_and_new_ones_are_refused_when_there_are_very_many_bytes() {
        let payload: Arc<[u8]> = vec![b'0'; 1 << 20].into();
        let terms =
            |number| Arc::new(NewPickTerms::new(Arc::clone(&payload), 1).kept(Incarnation(number), 0));
        let mut all = TermsInUse::default();
        for number in 0..511 {
            all.hold(terms(number));
            all.hold(terms(number));
        }
        assert_eq!(all.bytes(), 511 << 20, "however many have them");
        let room = |all: &TermsInUse, bytes: usize| {
            all.check_room(None, &payload[..bytes], None, Requested::Task).map_err(|problem| problem.code)
        };
        assert_eq!(room(&all, 1 << 20), Ok(()));
        all.hold(terms(511));
        assert_eq!(room(&all, 0), Ok(()));
        assert_eq!(room(&all, 1), Err("too_many_tasks"));
    }

    #[test]
    fn one_token_has_a_quarter_of_all_bytes() {
        let payload: Arc<[u8]> = vec![b'0'; 1 << 20].into();
        let mut all = TermsInUse::default();
        for number in 0..127 {
            let mut terms = NewPickTerms::new(Arc::clone(&payload), 1);
            terms.token = Some("lab".into());
            all.hold(Arc::new(terms.kept(Incarnation(number), 0)));
        }
        let room = |token| {
            let room = all.check_room(token, &payload, None, Requested::Task);
            room.map_err(|problem| (problem.status, problem.code))
        };
        // The names of the tokens count too.
        assert_eq!(room(Some("lab")), Err((429, "too_many_tasks")));
        assert_eq!(room(Some("ops")), Ok(()));
        assert_eq!(room(None), Ok(()), "without tokens everybody is one");
    }
}
