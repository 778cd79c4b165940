//! Which devices a subscription reaches: those whose commands it covers. Commands of a device go to
//! `dev/{kind}/{id}`.

use base::{DeviceId, Kind};

/// The devices whose commands a filter covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Covered {
    Nothing,
    /// The device with this id, if it is of the filter's kind.
    Device {
        device: DeviceId,
        /// The filter is the topic itself, without a wildcard.
        by_name: bool,
    },
    /// All devices, or those of this kind.
    Widely(Option<Kind>),
}

/// What a valid filter covers.
pub(super) fn covered(filter: &str) -> Covered {
    let mut levels = filter.split('/');
    let [first, kind, id, below] = std::array::from_fn(|_| levels.next());
    let more = levels.next().is_some();
    match (first, kind, id, below) {
        (Some("#"), None, None, None) => return Covered::Widely(None),
        (Some("dev" | "+"), ..) => {}
        _ => return Covered::Nothing,
    }
    let named = match kind {
        Some("#") => return Covered::Widely(None),
        Some("+") => None,
        Some(kind) => match Kind::new(kind) {
            Some(kind) => Some(kind),
            None => return Covered::Nothing,
        },
        None => return Covered::Nothing,
    };
    match (id, below) {
        _ if more => Covered::Nothing,
        (Some("#"), None) | (Some("+"), None | Some("#")) => Covered::Widely(named),
        (Some(id), None | Some("#")) => match DeviceId::new(id) {
            Some(device) => {
                let by_name = first == Some("dev") && named.is_some() && below.is_none();
                Covered::Device { device, by_name }
            }
            None => Covered::Nothing,
        },
        _ => Covered::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_covers_a_device_or_many_or_none() {
        let device = |by_name| Covered::Device { device: DeviceId::new("0xA").expect("an id"), by_name };
        let locks = || Covered::Widely(Kind::new("lock"));
        for (filter, expect) in [
            ("dev/lock/0xA", device(true)),
            ("dev/+/0xA", device(false)),
            ("+/lock/0xA", device(false)),
            ("+/+/0xA", device(false)),
            ("dev/lock/0xA/#", device(false)),
            ("#", Covered::Widely(None)),
            ("+/#", Covered::Widely(None)),
            ("dev/#", Covered::Widely(None)),
            ("dev/+/#", Covered::Widely(None)),
            ("dev/+/+", Covered::Widely(None)),
            ("+/+/+/#", Covered::Widely(None)),
            ("dev/lock/#", locks()),
            ("dev/lock/+", locks()),
            ("dev/lock/+/#", locks()),
            ("+/lock/+", locks()),
            ("dev", Covered::Nothing),
            ("dev/lock", Covered::Nothing),
            ("dev/Lock/+", Covered::Nothing),
            ("dev/lock/0x A", Covered::Nothing),
            ("dev/lock/0xA/state", Covered::Nothing),
            ("dev/lock/0xA/+", Covered::Nothing),
            ("dev/+/+/+", Covered::Nothing),
            ("dev/lock/0xA/state/#", Covered::Nothing),
            ("sensors", Covered::Nothing),
            ("$SYS/#", Covered::Nothing),
            ("elsewhere/#", Covered::Nothing),
        ] {
            assert_eq!(covered(filter), expect, "{filter}");
        }
    }
}
