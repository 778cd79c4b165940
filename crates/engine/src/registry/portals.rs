//! The registry's part of portals: which are open, and when their time is over.

use std::collections::{BTreeMap, BTreeSet};

use base::{Incarnation, Problem, Timestamp};
use records::{Client, Op, PartitionHead, PortalToken};
use store::{StoreError, View};

use super::{RegistryEffect, RegistryStep};
use crate::portals::{NewPortal, PORTALS_PER_CLIENT_MAX};

/// Tokens that are read at a time when the registry is loaded.
const LOADED_PER_READ: usize = 500;
/// Portals that are closed in a step because their time is over.
const CLOSED_PER_STEP: usize = 500;

/// All open portals.
#[derive(Debug, Default)]
pub(super) struct PortalTable {
    tokens: BTreeMap<Incarnation, PortalToken>,
    by_client: BTreeSet<(Incarnation, Incarnation)>,
    by_end: BTreeSet<(Timestamp, Incarnation)>,
}

impl PortalTable {
    pub(super) fn load(view: &dyn View) -> Result<Self, StoreError> {
        let mut table = Self::default();
        loop {
            let after = table.tokens.last_key_value().map(|(id, _)| *id);
            let tokens = view.portal_tokens(after, LOADED_PER_READ)?;
            if tokens.is_empty() {
                return Ok(table);
            }
            tokens.into_iter().for_each(|token| table.insert(token));
        }
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = &PortalToken> {
        self.tokens.values()
    }

    /// Opens a portal of a client that is there.
    pub(super) fn open(
        &mut self,
        portal: NewPortal,
        client: &Client,
        head: &mut PartitionHead,
        step: &mut RegistryStep<'_>,
    ) -> Result<PortalToken, Problem> {
        if self.of_client(client.incarnation).count() >= PORTALS_PER_CLIENT_MAX {
            let detail = format!(
                "client {} has {PORTALS_PER_CLIENT_MAX} open portals; close one, or wait until one ends",
                client.id
            );
            return Err(Problem::conflict("too_many_portals", detail));
        }
        let NewPortal { client: _, digest, ttl, may, by } = portal;
        let token = PortalToken {
            id: Incarnation(head.next_incarnation),
            client: client.incarnation,
            client_id: client.id.clone(),
            digest,
            may,
            created_at: step.now,
            expires_at: step.now.after(ttl),
            by,
        };
        head.next_incarnation += 1;
        step.push(Op::PutPortalToken(Box::new(token.clone())));
        step.emit(RegistryEffect::PortalOpened(Box::new(token.clone())));
        self.insert(token.clone());
        Ok(token)
    }

    /// Closes a portal of a client.
    pub(super) fn close(
        &mut self,
        client: &Client,
        id: Incarnation,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), Problem> {
        if !self.by_client.contains(&(client.incarnation, id)) {
            let detail = format!("client {} has no open portal {}", client.id, id.0);
            return Err(Problem::unknown("unknown_portal", detail));
        }
        self.remove(id, step);
        Ok(())
    }

    /// The client is gone, and its portals with it. There are few.
    pub(super) fn client_is_gone(&mut self, client: Incarnation, step: &mut RegistryStep<'_>) {
        let ids: Vec<_> = self.of_client(client).collect();
        ids.into_iter().for_each(|id| self.remove(id, step));
    }

    /// Closes portals whose time is over; whether there are more.
    pub(super) fn advance(&mut self, step: &mut RegistryStep<'_>) -> bool {
        for _ in 0..CLOSED_PER_STEP {
            match self.by_end.first().copied() {
                Some((at, id)) if at <= step.now => self.remove(id, step),
                _ => return false,
            }
        }
        self.next_wakeup().is_some_and(|at| at <= step.now)
    }

    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.by_end.first().map(|(at, _)| *at)
    }

    fn of_client(&self, client: Incarnation) -> impl Iterator<Item = Incarnation> + '_ {
        let all = (client, Incarnation(0))..=(client, Incarnation(u64::MAX));
        self.by_client.range(all).map(|(_, id)| *id)
    }

    fn insert(&mut self, token: PortalToken) {
        self.by_client.insert((token.client, token.id));
        self.by_end.insert((token.expires_at, token.id));
        self.tokens.insert(token.id, token);
    }

    fn remove(&mut self, id: Incarnation, step: &mut RegistryStep<'_>) {
        let Some(token) = self.tokens.remove(&id) else { return };
        self.by_client.remove(&(token.client, id));
        self.by_end.remove(&(token.expires_at, id));
        step.push(Op::DeletePortalToken(id));
        step.emit(RegistryEffect::PortalClosed(token.digest));
    }
}
