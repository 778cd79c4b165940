//! Devices that are lost at once and have a label in common are told of as one.
//!
//! Losses are gathered for a window that begins with the first. At its end they are put down to
//! labels. The label that most of them have in common takes all that have it, and so on, as long as
//! there are enough. Labels are known by their hashes here, since partitions count by these; a
//! device that was lost tells their texts.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{DeviceId, Timestamp, hash};
use records::NoticeKind;

use super::{Condition, Detail, Signal, SignalTopic};

/// Sets of labels that are told apart in a window; of devices with others no more is known than
/// that they were lost.
const SETS_MAX: usize = 4_096;

/// Devices with the same labels that a step found lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostDevices {
    /// The hashes of the labels.
    pub labels: Box<[u64]>,
    /// How many devices.
    pub count: u32,
    /// One of them.
    pub example: DeviceId,
}

/// The losses of a window.
#[derive(Debug, Default)]
pub(crate) struct LostTogether {
    since: Option<Timestamp>,
    lost: BTreeMap<Box<[u64]>, (u32, DeviceId)>,
}

/// Devices that were lost together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostGroup {
    since: Timestamp,
    label: u64,
    /// All that they have in common.
    shared: Vec<u64>,
    devices: u64,
    pub(crate) example: DeviceId,
}

impl LostTogether {
    /// Devices were lost. Whether a window begins with them.
    pub(crate) fn lost(&mut self, now: Timestamp, found: LostDevices) -> bool {
        let begins = self.since.is_none();
        self.since.get_or_insert(now);
        let LostDevices { labels, count, example } = found;
        if let Some((known, _)) = self.lost.get_mut(&labels) {
            *known = known.saturating_add(count);
        } else if !labels.is_empty() && self.lost.len() < SETS_MAX {
            self.lost.insert(labels, (count, example));
        }
        begins
    }

    /// When the window ends; `None` while there is none.
    pub(crate) fn ends_at(&self, window: Duration) -> Option<Timestamp> {
        self.since.map(|since| since.after(window))
    }

    /// Ends the window: at least so many that have a label in common were lost together.
    pub(crate) fn end(&mut self, least: u32) -> Vec<LostGroup> {
        let since = self.since.take().unwrap_or_default();
        let mut left = std::mem::take(&mut self.lost);
        let mut groups = Vec::new();
        while let Some((label, devices)) = most_common(&left).filter(|(_, count)| *count >= u64::from(least))
        {
            let (of_it, others): (BTreeMap<_, _>, _) =
                left.into_iter().partition(|(labels, _)| labels.contains(&label));
            left = others;
            let is_shared = |one: &u64| of_it.keys().all(|labels| labels.contains(one));
            let Some((first, (_, example))) = of_it.first_key_value() else { break };
            let shared = first.iter().copied().filter(is_shared).collect();
            groups.push(LostGroup { since, label, shared, devices, example: example.clone() });
        }
        groups
    }
}

/// The label that most devices have; of several that with the lowest hash.
fn most_common(lost: &BTreeMap<Box<[u64]>, (u32, DeviceId)>) -> Option<(u64, u64)> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (labels, (count, _)) in lost {
        labels.iter().for_each(|label| *counts.entry(*label).or_default() += u64::from(*count));
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

impl LostGroup {
    /// What is told of it, once the labels of [`LostGroup::example`] are read. `None` if that
    /// device has others by now.
    pub(crate) fn signal(&self, labels: &[(String, String)]) -> Option<Signal> {
        let known = |of: u64| labels.iter().find(|(key, value)| hash::label_hash(key, value) == of);
        let (key, value) = known(self.label)?;
        let shared = self.shared.iter().filter_map(|label| known(*label));
        let shared = shared.map(|(key, value)| (key.as_str(), value.as_str()));
        let detail = Detail::default().text("label", key).text("value", value);
        let detail = detail.number("devices", self.devices).texts("labels", shared);
        Some(Signal {
            topic: SignalTopic::Devices,
            subject: format!("label {key}={value}").into(),
            condition: Condition::Occurred(NoticeKind::DevicesLostTogether),
            detail: detail.text("since", &self.since.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(String, String)> {
        let pairs = text.split_whitespace().filter_map(|label| label.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn found(text: &str, count: u32) -> LostDevices {
        let mut hashes: Vec<_> =
            labels(text).iter().map(|(key, value)| hash::label_hash(key, value)).collect();
        hashes.sort_unstable();
        LostDevices { labels: hashes.into(), count, example: DeviceId::new("d").expect("an id") }
    }

    /// So many devices with these labels are lost; the labels and counts of what is told, given
    /// the labels of one of each.
    fn check(lost: &[(&str, u32)], of_ones: &[&str], expect: &[(&str, &str)]) {
        let mut window = LostTogether::default();
        for (place, (text, count)) in lost.iter().enumerate() {
            assert_eq!(window.lost(Timestamp(5), found(text, *count)), place == 0);
        }
        let groups = window.end(10);
        assert_eq!(groups.len(), expect.len(), "{groups:?}");
        for ((group, one), (subject, part)) in groups.iter().zip(of_ones).zip(expect) {
            let told = group.signal(&labels(one)).expect("its labels are known");
            assert_eq!(&*told.subject, format!("label {subject}"));
            assert!(told.detail.to_json().contains(part), "{}", told.detail.to_json());
        }
        assert_eq!(window.ends_at(Duration::from_secs(1)), None, "the next begins with the next loss");
    }

    #[test]
    fn devices_of_one_label_are_one_notice() {
        check(
            &[("land=jp site=12", 30), ("land=jp site=13", 3)],
            &["land=jp site=12"],
            &[("land=jp", r#""devices":33,"labels":{"land":"jp"}"#)],
        );
        check(
            &[("site=1", 20), ("site=2", 15), ("site=3", 9)],
            &["site=1", "site=2"],
            &[("site=1", r#""devices":20"#), ("site=2", r#""devices":15"#)],
        );
    }

    #[test]
    fn labels_that_all_share_are_told_together() {
        let mut window = LostTogether::default();
        window.lost(Timestamp(5), found("land=jp site=12", 30));
        let groups = window.end(10);
        assert_eq!(groups.len(), 1, "one notice, whatever labels they share");
        let told = groups[0].signal(&labels("land=jp site=12")).expect("known").detail.to_json();
        assert!(told.contains(r#""land":"jp""#) && told.contains(r#""site":"12""#), "{told}");
        assert_eq!(groups[0].signal(&labels("other=1")), None);
    }

    #[test]
    fn few_devices_or_such_without_labels_are_none() {
        check(&[("site=1", 9), ("site=2", 9), ("", 1_000)], &[], &[]);
    }

    #[test]
    fn a_window_begins_with_the_first_loss_and_is_bounded() {
        let mut window = LostTogether::default();
        assert_eq!(window.ends_at(Duration::from_secs(1)), None);
        for place in 0..SETS_MAX + 10 {
            window.lost(Timestamp(5 + place as i64), found(&format!("site={place}"), 1));
        }
        assert_eq!(window.ends_at(Duration::from_secs(1)), Some(Timestamp(1_005)));
        assert_eq!(window.lost.len(), SETS_MAX);
    }
}
