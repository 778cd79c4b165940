//! What is kept beside devices and their history, and for how long.

use base::{DeviceId, EntityId, Incarnation, Kind, Lineage, Timestamp, Value, WayIn};
use records::{
    CountedOf, CountsKey, DeliveryKey, DeviceSlot, GatheredReport, GatheredReports, HourlyCounts, KeptFrom,
    Metric, Op, PartitionHead, QuarantineKey, Quarantined, ReportIds,
};

use super::basics::{all, delivery, device, event, id, sign};
use super::{Make, PARTITION, Subject, loaded, next, put};
use crate::port::{DeviceResident, FeedFilter};

const DAY_MS: i64 = 86_400_000;

/// Looks at it as it is, with everything in the tables, and after a restart.
pub(super) fn throughout(subject: &mut dyn Subject, look: impl Fn(&dyn Subject, &str)) {
    look(subject, "just committed");
    (1..20).for_each(|turn| subject.churn(turn));
    look(subject, "later");
    subject.restart();
    look(subject, "after a restart");
    (1..20).for_each(|turn| subject.churn(turn));
    look(subject, "long after a restart");
}

fn refused(at: i64, number: u32) -> Quarantined {
    Quarantined {
        id: EntityId::derive(Lineage(1), 5, Incarnation(1), Timestamp(at), number, &[]),
        way: WayIn::Mqtt,
        topic: Some("sensors".to_owned()),
        device: Some(id("A")),
        code: "unreadable".to_owned(),
        detail: "not JSON".to_owned(),
        payload: vec![0xff, number as u8],
        cut: number.is_multiple_of(2),
    }
}

/// Refused reports are found until they are deleted.
pub fn the_quarantine_keeps_what_was_refused(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let reports: Vec<_> = (1..=3).map(|n| refused(10 + i64::from(n), n)).collect();
    let ops = reports.iter().map(|report| Op::PutQuarantined(Box::new(report.clone()))).collect();
    put(&mut *subject, next(&mut head, ops));
    put(&mut *subject, next(&mut head, vec![Op::DeleteQuarantined(QuarantineKey::from(reports[1].id))]));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        let found = view.quarantined(all()).expect("reads");
        assert_eq!(found, [reports[0].clone(), reports[2].clone()], "{context}");
        let one = |report: &Quarantined| view.quarantined_one(report.id.into()).expect("reads");
        assert_eq!((one(&reports[0]).as_ref(), one(&reports[1])), (Some(&reports[0]), None), "{context}");
        let resident: Vec<_> = loaded(subject.store(), PARTITION).1;
        let expect = |report: &Quarantined| DeviceResident::Quarantined(report.id.into(), report.cost());
        assert_eq!(resident, [expect(&reports[0]), expect(&reports[2])], "{context}");
    });
}

/// The ids of a device's reports are loaded, the latest that were put, and go with the device.
pub fn ids_of_reports_belong_to_their_device(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let ids = |ids: std::ops::Range<u64>| Box::new(ids.collect::<ReportIds>());
    let devices = [device("A", 0, &[]), device("B", 1, &[])];
    let ops = devices.iter().map(|device| Op::PutDevice(Box::new(device.clone()))).collect();
    put(&mut *subject, next(&mut head, ops));
    put(
        &mut *subject,
        next(
            &mut head,
            vec![Op::PutReportIds(DeviceSlot(0), ids(0..3)), Op::PutReportIds(DeviceSlot(1), ids(5..6))],
        ),
    );
    put(
        &mut *subject,
        next(
            &mut head,
            vec![Op::PutReportIds(DeviceSlot(0), ids(0..12)), Op::DeleteDevice(id("B"), DeviceSlot(1))],
        ),
    );
    throughout(&mut *subject, |subject, context| {
        let mut found = loaded(subject.store(), PARTITION).1;
        found.retain(|resident| matches!(resident, DeviceResident::ReportIds(..)));
        assert_eq!(found, [DeviceResident::ReportIds(DeviceSlot(0), ids(4..12))], "{context}");
    });
}

/// The latest counts of a day are there, each under its own name.
pub fn counts_are_what_was_put_last(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let key = |day, of, metric| CountsKey { day, of, metric };
    let counts = |hour, count| {
        let mut counts = HourlyCounts::default();
        counts.add(hour, count);
        counts
    };
    let names = [
        key(3, CountedOf::All, Metric::Reports),
        key(3, CountedOf::All, Metric::Deliveries),
        key(3, CountedOf::Client(Incarnation(9)), Metric::Reports),
        key(3, CountedOf::Label(9), Metric::Reports),
        key(4, CountedOf::All, Metric::Reports),
    ];
    let each = |more: u32| {
        (1..).zip(names).map(move |(n, name)| Op::PutCounts(name, Box::new(counts(n as usize, n + more))))
    };
    put(&mut *subject, next(&mut head, each(0).collect()));
    put(&mut *subject, next(&mut head, each(70_000).collect()));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        for (n, name) in (1..).zip(names) {
            let found = view.counts(name).expect("reads");
            assert_eq!(found, Some(counts(n as usize, n + 70_000)), "{name:?} {context}");
        }
        assert_eq!(view.counts(key(5, CountedOf::All, Metric::Reports)).expect("reads"), None);
    });
}

/// Devices are found by label and kind, as they are now, in order of id and page by page.
pub fn devices_are_found_by_label_and_kind(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let labelled = |name: &str, slot, kind: &str, site: &str| {
        let labels = vec![("site".to_owned(), site.to_owned())];
        let kind = Kind::new(kind).expect("a kind");
        records::DeviceProfile { labels, kind, ..device(name, slot, &[]) }
    };
    let puts = |devices: &[records::DeviceProfile]| {
        devices.iter().map(|device| Op::PutDevice(Box::new(device.clone()))).collect()
    };
    let devices = [
        labelled("A", 0, "lock", "1"),
        labelled("B", 1, "face", "1"),
        labelled("C", 2, "lock", "2"),
        labelled("D", 3, "lock", "1"),
    ];
    put(&mut *subject, next(&mut head, puts(&devices)));
    (1..5).for_each(|turn| subject.churn(turn));
    let moved = [labelled("C", 2, "lock", "1"), labelled("D", 3, "lock", "2")];
    put(&mut *subject, next(&mut head, puts(&moved)));
    put(&mut *subject, next(&mut head, vec![Op::DeleteDevice(id("A"), DeviceSlot(0))]));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        let names = |devices: Vec<records::DeviceProfile>| {
            devices.into_iter().map(|device| device.id.to_string()).collect::<Vec<_>>().join(" ")
        };
        let with = |value, after: Option<&str>, limit| {
            let after = after.map(id);
            names(view.devices_with(("site", value), after.as_ref(), limit).expect("reads"))
        };
        let of_kind = |kind: &str| {
            let kind = Kind::new(kind).expect("a kind");
            names(view.devices_of_kind(&kind, None, 10).expect("reads"))
        };
        assert_eq!((with("1", None, 10), with("2", None, 10)), ("B C".into(), "D".into()), "{context}");
        assert_eq!((with("1", None, 1), with("1", Some("B"), 10)), ("B".into(), "C".into()), "{context}");
        assert_eq!((of_kind("lock"), of_kind("face")), ("C D".into(), "B".into()), "{context}");
        assert_eq!((with("", None, 10), of_kind("fac")), (String::new(), String::new()), "{context}");
    });
}

/// What is older than the head says is gone, at once and for good; what is not, stays.
pub fn what_is_too_old_is_gone(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let old = |day: i64, number| day * DAY_MS + i64::from(number);
    put(&mut *subject, next(&mut head, vec![Op::PutDevice(Box::new(device("A", 0, &[7])))]));
    for day in 1..=4 {
        let number = day as u32;
        head.now = Timestamp(old(day, 1));
        let name = CountsKey { day: number, of: CountedOf::All, metric: Metric::Changes };
        let ops = vec![
            sign(0, number, 1.0),
            Op::PutEvent(Box::new(event(0, old(day, 1), number))),
            Op::PutDelivery(Box::new(delivery(0, 7, old(day, 1), number))),
            Op::PutCounts(name, Box::new(HourlyCounts([1; 24]))),
        ];
        put(&mut *subject, next(&mut head, ops));
        subject.churn(day as u64);
    }
    let from = |day: i64| Timestamp(day * DAY_MS);
    head.kept_from = KeptFrom { readings: from(2), events: from(3), deliveries: from(4) };
    let op = Op::PutState(DeviceSlot(0), records::DeviceState::default());
    put(&mut *subject, next(&mut head, vec![op]));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        let kept = all().kept_from(from(2));
        assert_eq!(view.readings(DeviceSlot(0), kept).expect("reads").len(), 3, "{context}");
        for whose in [FeedFilter::default(), FeedFilter { device: Some(DeviceSlot(0)), client: None }] {
            assert_eq!(view.events(whose, all(), &|_| true).expect("reads").len(), 2, "{context}");
            assert_eq!(view.deliveries(whose, all(), &|_| true).expect("reads").len(), 1, "{context}");
        }
        let of_client = FeedFilter { device: None, client: Some(Incarnation(7)) };
        assert_eq!(view.deliveries(of_client, all(), &|_| true).expect("reads").len(), 1, "{context}");
        let key = |day| DeliveryKey { at: Timestamp(old(day, 1)), number: day as u32 };
        let is_there = |day| view.delivery(key(day)).expect("reads").is_some();
        assert_eq!((is_there(3), is_there(4)), (false, true), "{context}");
        let counted = |day| {
            let name = CountsKey { day, of: CountedOf::All, metric: Metric::Changes };
            view.counts(name).expect("reads").is_some()
        };
        assert_eq!((counted(2), counted(3)), (false, true), "{context}");
    });
}

/// A reading that comes late is there, however old its time.
pub fn a_late_reading_is_kept_from_its_receipt(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let today = 1_000;
    head.now = Timestamp(today * DAY_MS);
    head.kept_from.readings = Timestamp((today - 90) * DAY_MS);
    put(&mut *subject, next(&mut head, vec![Op::PutDevice(Box::new(device("A", 0, &[])))]));
    let mut late = sign(0, 1, 1.0);
    if let Op::Sign(records::Sign { reading: Some(reading), .. }) = &mut late {
        reading.ts = Some(Timestamp(5 * DAY_MS));
    }
    put(&mut *subject, next(&mut head, vec![late]));
    head.kept_from.readings = Timestamp((today - 89) * DAY_MS);
    head.now = Timestamp((today + 1) * DAY_MS);
    let op = Op::PutState(DeviceSlot(0), records::DeviceState::default());
    put(&mut *subject, next(&mut head, vec![op]));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        assert_eq!(view.readings(DeviceSlot(0), all()).expect("reads").len(), 1, "{context}");
    });
}

/// Rows of one copy in order of their numbers, until there are as many reports as were asked for.
pub fn gathered_reports_are_read_in_order_of_their_numbers(make: Make<'_>) {
    let (mut subject, mut head) = (make(), PartitionHead::default());
    let device = DeviceId::new("0xA").expect("an id");
    let row = |gather, first, reports| GatheredReports {
        gather: Incarnation(gather),
        first,
        lineage: Lineage(7),
        received_at: Timestamp(5),
        reports: (0..reports)
            .map(|at| GatheredReport {
                device: device.clone(),
                ts: (at % 2 == 0).then_some(Timestamp(at)),
                value: Value::Number(at as f64),
            })
            .collect(),
    };
    let all = [row(1, 1, 300), row(1, 301, 2), row(1, 303, 0), row(2, 7, 1)];
    let puts = all.iter().rev().map(|row| Op::PutGatheredReports(Box::new(row.clone()))).collect();
    put(&mut *subject, next(&mut head, puts));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        let of = |gather, max| view.gathered_reports((Incarnation(gather), 0), max).expect("reads");
        assert_eq!(of(1, 300), all[..1], "{context}");
        assert_eq!(of(1, 301), all[..2], "{context}");
        assert_eq!(of(1, 999), all[..3], "{context}");
        let behind = view.gathered_reports((Incarnation(1), 301), 999).expect("reads");
        assert_eq!(behind, all[1..3], "{context}");
        assert_eq!((of(2, 1), of(3, 9)), (all[3..].to_vec(), Vec::new()), "{context}");
        let mut shown = Vec::new();
        view.each_gathered(&mut |row| shown.push(row.clone())).expect("reads");
        assert_eq!(shown, all, "{context}");
    });
    put(&mut *subject, next(&mut head, vec![Op::DeleteGatheredReports(Incarnation(1), 1)]));
    throughout(&mut *subject, |subject, context| {
        let view = subject.store().view(PARTITION).expect("opens");
        let left = view.gathered_reports((Incarnation(1), 0), 999).expect("reads");
        assert_eq!(left, all[1..3], "{context}");
    });
}
