//! Which topics carry what devices say, and what their levels say. Checks neither kind nor id.

use super::SENSORS;

/// A topic as the contract knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic<'a> {
    /// `dev/{kind}/{id}/state`
    State { kind: &'a str, device: &'a str },
    /// `dev/{kind}/{id}/heartbeat`
    Heartbeat { kind: &'a str, device: &'a str },
    /// `dev/{kind}/{id}/ack`, or `.../Ack`
    Ack { kind: &'a str, device: &'a str },
    /// `dev/{kind}/{id}/confirmed`
    Confirmed { kind: &'a str, device: &'a str },
    /// `sensors`
    Sensors,
    /// Any other.
    Unknown,
}

pub(super) fn parse(topic: &str) -> Topic<'_> {
    if topic == SENSORS {
        return Topic::Sensors;
    }
    let Some(levels) = topic.strip_prefix("dev/") else { return Topic::Unknown };
    let mut levels = levels.split('/');
    let (Some(kind), Some(device), Some(last), None) =
        (levels.next(), levels.next(), levels.next(), levels.next())
    else {
        return Topic::Unknown;
    };
    match last {
        "state" => Topic::State { kind, device },
        "heartbeat" => Topic::Heartbeat { kind, device },
        "ack" | "Ack" => Topic::Ack { kind, device },
        "confirmed" => Topic::Confirmed { kind, device },
        _ => Topic::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_topics_of_the_contract_are_known() {
        let lock = |device| Topic::State { kind: "lock", device };
        for (topic, expect) in [
            ("dev/lock/0xA/state", lock("0xA")),
            ("dev/lock//state", lock("")),
            ("dev/lock/0xA/heartbeat", Topic::Heartbeat { kind: "lock", device: "0xA" }),
            ("sensors", Topic::Sensors),
            ("", Topic::Unknown),
            ("sensors/", Topic::Unknown),
            ("/dev/lock/0xA/state", Topic::Unknown),
            ("dev/lock/0xA/state/", Topic::Unknown),
            ("dev/lock/0xA", Topic::Unknown),
            ("dev/lock/0xA/State", Topic::Unknown),
            ("dev/lock/0xA/ack", Topic::Ack { kind: "lock", device: "0xA" }),
            ("dev/lock/0xA/Ack", Topic::Ack { kind: "lock", device: "0xA" }),
            ("dev/lock/0xA/confirmed", Topic::Confirmed { kind: "lock", device: "0xA" }),
            ("dev/lock/0xA/ACK", Topic::Unknown),
            ("dev/lock/0xA/ack/1", Topic::Unknown),
        ] {
            assert_eq!(parse(topic), expect, "{topic}");
        }
    }
}
