//! Devices imported: registered, or brought to what their line says.

use std::sync::Arc;

use base::{Incarnation, Problem};
use fleet::{CheckedImport, Registration};
use records::{DeviceProfile, DeviceSlot};
use store::StoreError;

use super::{DevicePartition, DeviceStep};
use crate::devices::input::{ImportOutcome, LinkedClient, ToImport};
use crate::kernel::reply::{Answered, InputFailure, answered};

impl DevicePartition {
    /// Applies lines: what became of each, by its place.
    pub(super) fn import_lines(
        &mut self,
        lines: Vec<ToImport>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<(u32, Answered<ImportOutcome>)>, StoreError> {
        let mut outcomes = Vec::with_capacity(lines.len());
        for line in lines {
            outcomes.push((line.index, answered(self.import(line, step))?));
        }
        Ok(outcomes)
    }

    pub(super) fn import(
        &mut self,
        line: ToImport,
        step: &mut DeviceStep<'_>,
    ) -> Result<ImportOutcome, InputFailure> {
        let ToImport { import, clients, .. } = line;
        let clients = clients.map(|clients| self.know(clients));
        if self.devices.slot_of(import.id()).is_some() {
            self.import_known(import, clients, step)?;
            return Ok(ImportOutcome::Updated);
        }
        self.import_new(import, clients.unwrap_or_default(), step)?;
        Ok(ImportOutcome::Created)
    }

    fn know(&mut self, clients: Vec<LinkedClient>) -> Vec<Incarnation> {
        let known = |client: LinkedClient| {
            self.clients.insert(client.incarnation, client.id);
            client.incarnation
        };
        clients.into_iter().map(known).collect()
    }

    fn import_new(
        &mut self,
        import: CheckedImport,
        clients: Vec<Incarnation>,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), Problem> {
        fleet::device_id(import.id().as_str(), self.settings.device_ids)?;
        self.devices.check_room(import.kind())?;
        let every = self.watch.readings_of_clocks(step.now).every;
        let registration = Registration {
            expected_from: import.expected_from(step.now, every).unwrap_or(every),
            ..self.registration(step)
        };
        self.add_device(&import.register(registration, clients), step);
        Ok(())
    }

    fn import_known(
        &mut self,
        import: CheckedImport,
        clients: Option<Vec<Incarnation>>,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let present = self.profile(import.id(), step)?;
        let every = self.watch.readings_of_clocks(step.now).every;
        let expected_from = import.expected_from(step.now, every);
        let profile = import.merged(&present, clients, expected_from)?;
        if profile == *present {
            return Ok(());
        }
        for client in present.clients.iter().filter(|client| !profile.clients.contains(client)) {
            self.cancel_notifications(profile.slot, *client, step);
        }
        if profile.expected_from != present.expected_from {
            self.watch.expect_from(profile.slot, profile.expected_from);
        }
        Ok(self.put_changed(present, &profile, step)?)
    }

    /// What the registry gives a device that is registered now.
    pub(super) fn registration(&mut self, step: &DeviceStep<'_>) -> Registration {
        let registration = Registration {
            incarnation: Incarnation(self.head.next_incarnation),
            slot: DeviceSlot(self.head.next_slot),
            registered_at: step.now,
            expected_from: self.watch.readings_of_clocks(step.now).every,
        };
        self.head.next_incarnation += 1;
        self.head.next_slot += 1;
        registration
    }

    pub(super) fn add_device(&mut self, profile: &DeviceProfile, step: &mut DeviceStep<'_>) {
        let group = self.groups.enter(profile);
        self.devices.insert(profile, group);
        self.watch.register(profile);
        self.put_profile(None, profile, step);
        self.registered_with_sessions(profile, step);
    }

    /// Writes a profile that changed, and lets those know who keep a part of it.
    pub(super) fn put_changed(
        &mut self,
        was: Arc<DeviceProfile>,
        is: &DeviceProfile,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if is.report_interval_ms != was.report_interval_ms {
            self.watch.set_interval(is.slot, is.report_interval_ms);
        }
        let (relabelled, paced) = (is.labels != was.labels, is.pace != was.pace);
        if relabelled {
            // A partition that was loaded again may not have looked at the former ones yet.
            let _told_of_before = self.commands.sessions.relabel(&was);
        }
        self.put_links(was, is, step);
        if relabelled {
            self.sessions_relabelled(is, step);
            // A login that is known by a label may speak for it no longer, or from now on.
            self.reach_changed(is.slot, step)?;
        }
        if paced {
            self.devices.set_pace(is.slot, is.pace);
            self.pace_changed(is.slot, step)?;
        }
        Ok(())
    }
}
