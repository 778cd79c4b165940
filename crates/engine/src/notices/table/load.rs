//! What the kept notices tell of subjects when the registry is loaded.
//!
//! The newest kept notice of a subject is what listeners were last told of it. A condition that was
//! told is taken to hold until somebody says otherwise.

use std::collections::BTreeMap;

use base::{ClientId, Timestamp};
use records::{Client, NoticeKey, NoticeKind};
use store::{Page, StoreError, View};

use super::{NoticeTable, SubjectKey};
use crate::notices::hysteresis::SubjectState;
use crate::notices::{Condition, Detail, Signal, SignalTopic};

/// Rows that are read at a time.
pub(super) const LOADED_PER_READ: usize = 500;

impl NoticeTable {
    pub(super) fn load_subjects(
        &mut self,
        view: &dyn View,
        now: Timestamp,
        clients: &BTreeMap<ClientId, Client>,
    ) -> Result<(), StoreError> {
        for ((topic, subject), (kind, at)) in self.load_newest(view)? {
            let (last_told, present, detail) = match topic {
                SignalTopic::Client => of_client(&subject, (kind, at), clients),
                SignalTopic::Rollout | SignalTopic::Devices => (None, None, Detail::default()),
                SignalTopic::Backlog
                | SignalTopic::DeadLetters
                | SignalTopic::Storage
                | SignalTopic::Certificate => (Some(kind), Some(kind), Detail::default()),
            };
            let state = SubjectState::loaded(at, self.settings.quiet, last_told, present);
            if !state.is_forgettable(now) {
                self.remember(now, (topic, subject), state, detail);
            }
        }
        Ok(())
    }

    /// The newest notice of each subject; bounded by the notices that are kept.
    fn load_newest(
        &mut self,
        view: &dyn View,
    ) -> Result<BTreeMap<SubjectKey, (NoticeKind, Timestamp)>, StoreError> {
        let (mut newest, mut after) = (BTreeMap::new(), None);
        loop {
            let (from, to) = (Timestamp(i64::MIN), Timestamp::MAX);
            let page = Page { from, to, ascending: true, after, limit: LOADED_PER_READ };
            let notices = view.notices(page, &|_| true)?;
            let Some(last) = notices.last() else { return Ok(newest) };
            after = Some(NoticeKey::from(last.id));
            for notice in notices {
                self.kept.insert(notice.id.into());
                let key = (SignalTopic::of(notice.kind), notice.subject);
                newest.insert(key, (notice.kind, notice.id.at));
            }
        }
    }

    /// The conditions that were told and hold as far as is known, as signals. Not those of clients
    /// that are disabled: the registry knows them itself.
    pub(crate) fn standing(&self) -> Vec<Signal> {
        let signal = |((topic, subject), (state, detail)): (&SubjectKey, &(SubjectState, Detail))| {
            let kind = state.present().filter(|kind| *kind != NoticeKind::ClientDisabled)?;
            let (condition, detail) = (Condition::Firing(kind), detail.clone());
            Some(Signal { topic: *topic, subject: subject.clone(), condition, detail })
        };
        self.subjects.iter().filter_map(signal).collect()
    }
}

/// The client that a subject names.
pub(super) fn client_of<'a>(subject: &str, clients: &'a BTreeMap<ClientId, Client>) -> Option<&'a Client> {
    clients.get(&ClientId::new(subject.strip_prefix("client ")?)?)
}

/// What was last told of a client, what is wrong with it, and what there is to say of that.
fn of_client(
    subject: &str,
    (kind, at): (NoticeKind, Timestamp),
    clients: &BTreeMap<ClientId, Client>,
) -> (Option<NoticeKind>, Option<NoticeKind>, Detail) {
    // An earlier client of that id says nothing of this one.
    let Some(client) = client_of(subject, clients).filter(|client| client.created_at <= at) else {
        return (None, None, Detail::default());
    };
    let last_told = Some(kind).filter(|kind| *kind != NoticeKind::ClientRecovered);
    let present = match last_told {
        _ if !client.enabled => Some(NoticeKind::ClientDisabled),
        Some(NoticeKind::ClientDisabled) => None,
        other => other,
    };
    (last_told, present, Detail::default().text("client_id", client.id.as_str()))
}
