//! Links between devices and clients. A device keeps the incarnations of its clients, in the order
//! of linking.

use base::limits::CLIENTS_PER_DEVICE_MAX;
use base::{Incarnation, Problem};
use records::DeviceProfile;

use crate::RegistryRefusal;

/// What linking changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// The link is new.
    Added,
    /// It was there.
    Already,
}

/// Links a client to a device.
///
/// Links to clients that are gone count until they are swept, so [`sweep`] a device that is full
/// before refusing.
///
/// # Errors
/// `too_many_links` when the device has as many clients as it may have.
pub fn link(profile: &mut DeviceProfile, client: Incarnation) -> Result<Linked, Problem> {
    if profile.clients.contains(&client) {
        return Ok(Linked::Already);
    }
    if profile.clients.len() >= CLIENTS_PER_DEVICE_MAX {
        let detail = format!(
            "device {} has {} clients; it may have at most {CLIENTS_PER_DEVICE_MAX}: unlink one first",
            profile.id,
            profile.clients.len()
        );
        return Err(RegistryRefusal::TooManyLinks.problem(detail));
    }
    profile.clients.push(client);
    Ok(Linked::Added)
}

/// Takes a link away. Whether it was there.
pub fn unlink(profile: &mut DeviceProfile, client: Incarnation) -> bool {
    let before = profile.clients.len();
    profile.clients.retain(|linked| *linked != client);
    profile.clients.len() < before
}

/// Takes the links to clients that are gone away, and names them.
pub fn sweep(profile: &mut DeviceProfile, is_registered: impl Fn(Incarnation) -> bool) -> Vec<Incarnation> {
    profile.clients.extract_if(.., |client| !is_registered(*client)).collect()
}

#[cfg(test)]
mod tests {
    use base::{Attended, DeviceId, Timestamp};
    use records::DeviceSlot;

    use super::*;
    use crate::{NewDevice, Registration};

    fn device(clients: impl IntoIterator<Item = u64>) -> DeviceProfile {
        let id = DeviceId::new("0xA").expect("an id");
        let checked = NewDevice::default().check_but_id(id).expect("may be registered");
        let registration = Registration {
            incarnation: Incarnation(1),
            slot: DeviceSlot(0),
            registered_at: Timestamp(0),
            expected_from: Attended(0),
        };
        let clients = clients.into_iter().map(Incarnation).collect();
        DeviceProfile { clients, ..checked.register(registration) }
    }

    #[test]
    fn linking_twice_is_linking_once() {
        let mut profile = device([]);
        assert_eq!(link(&mut profile, Incarnation(7)), Ok(Linked::Added));
        assert_eq!(link(&mut profile, Incarnation(7)), Ok(Linked::Already));
        assert_eq!(profile, device([7]));
    }

    #[test]
    fn unlinking_keeps_the_order_of_the_others() {
        let mut profile = device([5, 3, 9]);
        assert!(unlink(&mut profile, Incarnation(3)));
        assert!(!unlink(&mut profile, Incarnation(3)));
        assert_eq!(profile, device([5, 9]));
    }

    #[test]
    fn a_full_device_takes_no_other_client() {
        let mut profile = device(0..100);
        assert_eq!(link(&mut profile, Incarnation(99)), Ok(Linked::Already));
        let problem = link(&mut profile, Incarnation(100)).expect_err("full");
        assert_eq!((problem.status, problem.code), (409, "too_many_links"));
        assert_eq!(profile, device(0..100));
    }

    #[test]
    fn sweeping_makes_room() {
        let mut profile = device(0..100);
        let gone = sweep(&mut profile, |client| client.0 != 4 && client.0 != 40);
        assert_eq!(gone, [Incarnation(4), Incarnation(40)]);
        assert_eq!(link(&mut profile, Incarnation(100)), Ok(Linked::Added));
        assert_eq!(profile.clients.len(), 99);
    }
}
