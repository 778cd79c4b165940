//! Importing: one line describes a device, whether it is registered or not.
//!
//! What a line names is set, what it leaves out stays. Labels, clients and the pace of commands
//! that it names are exactly those.

use base::limits::CLIENTS_PER_DEVICE_MAX;
use base::{Attended, ClientId, DeviceId, Incarnation, Kind, Problem, Timestamp};
use records::DeviceProfile;

use crate::device::check_stays;
use crate::{CheckedDevice, NewDevice, Patch, Registration, RegistryRefusal, RegistryRules, id};

/// A device as a line describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportDevice {
    /// The device. Labels that are left out stay; none at all take all away.
    pub device: NewDevice,
    /// Exactly the clients it is linked to; those it has stay when left out.
    pub clients: Option<Vec<String>>,
    /// From when a device that never reports is missed, in place of the time of its registration.
    pub expect_from: Option<Timestamp>,
}

impl ImportDevice {
    /// The line, if its device may be registered.
    ///
    /// # Errors
    /// As [`NewDevice::check`], but for the form that the settings ask of a new id: see
    /// [`crate::device_id`]; `invalid_id` for a client's id; `too_many_links`.
    pub fn check(self, rules: &RegistryRules) -> Result<CheckedImport, Problem> {
        let names_kind = self.device.kind.is_some();
        let clients = self.clients.map(|ids| checked_clients(&ids)).transpose()?;
        // A device that is registered may have an id of before the settings; who imports a new one
        // checks that it has none.
        let id = match DeviceId::new(&self.device.id) {
            Some(id) => id,
            None => id::device_id(&self.device.id, rules.device_ids)?,
        };
        let device = self.device.check_but_id(id)?;
        Ok(CheckedImport { device, names_kind, clients, expect_from: self.expect_from })
    }
}

fn checked_clients(ids: &[String]) -> Result<Vec<ClientId>, Problem> {
    let mut clients: Vec<ClientId> = Vec::with_capacity(ids.len().min(CLIENTS_PER_DEVICE_MAX));
    for id in ids {
        let client = id::client_id(id)?;
        if clients.contains(&client) {
            continue;
        }
        if clients.len() == CLIENTS_PER_DEVICE_MAX {
            let detail = format!("a device may have at most {CLIENTS_PER_DEVICE_MAX} clients");
            return Err(RegistryRefusal::TooManyLinks.problem(detail));
        }
        clients.push(client);
    }
    Ok(clients)
}

/// A line whose device may be registered or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedImport {
    device: CheckedDevice,
    names_kind: bool,
    clients: Option<Vec<ClientId>>,
    expect_from: Option<Timestamp>,
}

impl CheckedImport {
    /// The device's id.
    #[must_use]
    pub fn id(&self) -> &DeviceId {
        self.device.id()
    }

    /// The device's kind, should it be new.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.device.kind()
    }

    /// The clients that it names; they are still to be looked up.
    #[must_use]
    pub fn clients(&self) -> Option<&[ClientId]> {
        self.clients.as_deref()
    }

    /// The reading of the clock of devices never seen from which this one is missed: `now` is
    /// `every` on that clock.
    #[must_use]
    pub fn expected_from(&self, now: Timestamp, every: Attended) -> Option<Attended> {
        let ms = |from: Timestamp| from.0.saturating_sub(now.0);
        self.expect_from.map(|from| Attended(every.0.saturating_add(ms(from))))
    }

    /// The profile of a new device.
    #[must_use]
    pub fn register(self, registration: Registration, clients: Vec<Incarnation>) -> DeviceProfile {
        DeviceProfile { clients, ..self.device.register(registration) }
    }

    /// The profile of a registered device after the line. `clients` are the ones it names,
    /// `expected_from` where it is missed from.
    ///
    /// # Errors
    /// `cannot_change` for another kind.
    pub fn merged(
        self,
        present: &DeviceProfile,
        clients: Option<Vec<Incarnation>>,
        expected_from: Option<Attended>,
    ) -> Result<DeviceProfile, Problem> {
        if self.names_kind {
            check_stays("kind", &Patch::Set(self.device.kind().to_string()), present.kind.as_str())?;
        }
        let mut profile = present.clone();
        self.device.set_what_is_named(&mut profile);
        if let Some(clients) = clients {
            profile.clients = clients;
        }
        profile.expected_from = expected_from.unwrap_or(profile.expected_from);
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use records::DeviceSlot;

    use super::*;

    const RULES: RegistryRules =
        RegistryRules { device_ids: base::DeviceIdForm::DEFAULT, allow_private: false };

    fn line(labels: Option<&[(&str, &str)]>, clients: Option<&[&str]>) -> CheckedImport {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let device = NewDevice {
            id: "0xA".to_owned(),
            labels: labels.map(|labels| labels.iter().map(owned).collect()),
            ..NewDevice::default()
        };
        let clients = clients.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        ImportDevice { device, clients, expect_from: None }.check(&RULES).expect("may be registered")
    }

    fn registered() -> DeviceProfile {
        let registration = Registration {
            incarnation: Incarnation(1),
            slot: DeviceSlot(0),
            registered_at: Timestamp(0),
            expected_from: Attended(0),
        };
        line(Some(&[("site", "1")]), None).register(registration, vec![Incarnation(7)])
    }

    #[test]
    fn what_a_line_leaves_out_stays() {
        let present = registered();
        let after = line(None, None).merged(&present, None, None).expect("merged");
        assert_eq!(after, present);
    }

    #[test]
    fn what_a_line_names_is_set_exactly() {
        let import = line(Some(&[("city", "Moscow")]), Some(&["a", "b", "a"]));
        assert_eq!(import.clients().map(<[ClientId]>::len), Some(2), "twice is once");
        let after = import.merged(&registered(), Some(vec![Incarnation(8)]), None).expect("merged");
        assert_eq!(after.labels, [("city".to_owned(), "Moscow".to_owned())]);
        assert_eq!(after.clients, [Incarnation(8)]);
    }

    #[test]
    fn a_line_may_name_that_there_are_none() {
        let import = line(Some(&[]), Some(&[]));
        assert_eq!(import.clients().map(<[ClientId]>::len), Some(0));
        let after = import.merged(&registered(), Some(Vec::new()), None).expect("merged");
        assert_eq!((after.labels, after.clients), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_kind_cannot_change() {
        let device =
            NewDevice { id: "0xA".to_owned(), kind: Some("face".to_owned()), ..NewDevice::default() };
        let import = ImportDevice { device, ..ImportDevice::default() }.check(&RULES).expect("checked");
        let problem = import.merged(&registered(), None, None).expect_err("another kind");
        assert_eq!((problem.status, problem.code), (422, "cannot_change"));
    }

    #[test]
    fn a_device_is_missed_from_the_time_that_the_line_names() {
        let device = NewDevice { id: "0xA".to_owned(), ..NewDevice::default() };
        let import = ImportDevice { device, clients: None, expect_from: Some(Timestamp(400)) };
        let import = import.check(&RULES).expect("checked");
        assert_eq!(import.expected_from(Timestamp(1_000), Attended(50)), Some(Attended(-550)));
    }

    #[test]
    fn too_many_clients_are_refused() {
        let clients = (0..101).map(|n| format!("c{n}")).collect();
        let device = NewDevice { id: "0xA".to_owned(), ..NewDevice::default() };
        let import = ImportDevice { device, clients: Some(clients), expect_from: None };
        let problem = import.check(&RULES).expect_err("too many");
        assert_eq!((problem.status, problem.code), (409, "too_many_links"));
    }
}
