//! Clients, their receivers, and who notices how these do: the sender's part of notices.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::ClientId;
use engine::kernel::reply::Reply;
use engine::notices::{Condition, Detail, NoticeInput, Signal, SignalTopic};
use engine::registry::RegistryInput;
use engine::{ClientPatch, NewClient, OnlyIf, Patch};
use fleet::Made;
use records::NoticeKind;

use super::{Answer, Then, World};
use crate::harness::calls::Waiting;
use crate::harness::violation::{Checked, Invariant};
use crate::registry::fault_injection::RECOVERY_UNSEEN;

impl World {
    pub(super) fn register_all(&mut self) {
        for id in self.plan.client_ids().collect::<Vec<_>>() {
            let (name, url) = ("n".to_owned(), format!("https://{id}.example/"));
            let client = NewClient { id: Some(id.to_string()), name, url, secret: None, notices: false };
            let made = Box::new(Made { id: [7; 8], secret: [7; 32] });
            let (reply, receiver) = Reply::new();
            let input = RegistryInput::Create { client: Box::new(client), made, reply };
            let waiting = Waiting::on(receiver, |answer| Answer::Client(answer.map(drop)));
            let _takes = self.ask(input, waiting, Then::Nothing);
        }
    }

    fn any_client(&self) -> ClientId {
        self.machine.random.one_of(&self.plan.client_ids().collect::<Vec<_>>())
    }

    /// A receiver fails from now on, or does no more.
    pub(super) fn change_mood(&mut self) {
        let client = self.any_client();
        if !self.failing.remove(&client) {
            self.failing.insert(client);
        }
    }

    /// Somebody disables a client, or enables it.
    pub(super) fn enable(&mut self) {
        let id = self.any_client();
        let enabled = self.machine.random.chance(2, 3);
        self.changed.insert(id.clone());
        let patch = ClientPatch { enabled: Patch::Set(enabled), ..ClientPatch::default() };
        let (reply, receiver) = Reply::new();
        let input = RegistryInput::Patch { id, patch: Box::new(patch), only_if: OnlyIf::default(), reply };
        // A client whose registration was lost is unknown.
        let waiting = Waiting::on(receiver, |_| Answer::Client(Ok(())));
        let _takes = self.ask(input, waiting, Then::Nothing);
    }

    /// The sender finds out how receivers do. Whether there was anything new.
    pub(super) fn look_at_receivers(&mut self) -> bool {
        let Some(server) = &mut self.server else { return false };
        let mut found = false;
        for id in self.plan.client_ids() {
            let enabled = server.context.directory().by_id(&id).filter(|client| client.enabled);
            let (fails, opened) = (self.failing.contains(&id), server.open.get(&id));
            // A client that was changed begins anew.
            let was_open = opened.is_some();
            let is_changed = opened.zip(enabled.as_ref()).is_some_and(|(of, now)| !Arc::ptr_eq(of, now));
            let condition = match (enabled.is_some(), fails, was_open) {
                (true, _, true) if is_changed => Condition::Cleared,
                (true, true, false) => Condition::Firing(NoticeKind::ClientFailing),
                (true, false, true) => Condition::Resolved,
                (false, _, true) => Condition::Cleared,
                (true, false, false) if server.told_failing.contains(&id) => {
                    self.counts.recovered_after_a_start += 1;
                    Condition::Resolved
                }
                _ => continue,
            };
            found = true;
            server.told_failing.remove(&id);
            match enabled.filter(|_| matches!(condition, Condition::Firing(_))) {
                Some(client) => drop(server.open.insert(id.clone(), client)),
                None => drop(server.open.remove(&id)),
            }
            self.machine.trace.note(format_args!("client {id} is {condition:?}"));
            let (topic, subject) = (SignalTopic::Client, format!("client {id}").into());
            server.context.signal(Signal { topic, subject, condition, detail: Detail::default() });
        }
        found
    }

    /// Signals arrive at the registry. Whether there were any.
    pub(super) fn carry_signals(&mut self) -> bool {
        if !self.has_room() {
            return false;
        }
        let signals = self.server.as_ref().map_or_else(Vec::new, |server| server.context.take_signals());
        let any = !signals.is_empty();
        if any {
            let _takes = self.hand_in(NoticeInput::Signals(signals).into(), None);
        }
        any
    }

    /// Clients that were told failing before the start.
    pub(super) fn told_failing(&self, of: &engine::context::EngineContext) -> BTreeSet<ClientId> {
        if self.machine.injects(RECOVERY_UNSEEN) {
            return BTreeSet::new();
        }
        of.clients_told_failing().into_iter().collect()
    }

    /// What was told of every client is right.
    pub(super) fn check_notices(&self) -> Checked {
        let Some(server) = &self.server else { return Ok(()) };
        for id in self.plan.client_ids() {
            let Some(client) = server.context.directory().by_id(&id) else { continue };
            let told = self.model.present.newest(&format!("client {id}"));
            let is_right = match told {
                _ if !client.enabled => told == Some(NoticeKind::ClientDisabled),
                _ if self.failing.contains(&id) => told == Some(NoticeKind::ClientFailing),
                Some(NoticeKind::ClientFailing) => self.changed.contains(&id),
                _ => true,
            };
            Invariant::NOTICES_ARE_RIGHT.check(is_right, || {
                let fails = self.failing.contains(&id);
                format!("{id} was told {told:?}; enabled: {}, fails: {fails}", client.enabled)
            })?;
        }
        Ok(())
    }
}
