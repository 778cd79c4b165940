//! What the store holds at some batch against what the model has at the same batch: resident
//! records, lists, history.

use std::collections::BTreeMap;

use base::{Incarnation, Timestamp};
use engine::records::{DeliveryKey, EventKey};
use records::DeviceSlot;
use store::{DeviceResident, FeedFilter, Page, ReadingKey, View};

use super::{indexes, quarantine_and_counts};
use crate::devices::model::device::{Device, Event, Reading, Shown, Taken};
use crate::devices::model::notifications::{Attempt, Delivery};
use crate::devices::model::partition::Partition;
use crate::devices::model::registry::{KnownClient, Registry};
use crate::harness::feed::{both_ways, paged};
use crate::harness::violation::{Checked, Invariant, unreadable};

/// A delivery as it is compared: who, what, how far.
type DeliveryLine = (base::EntityId, String, Incarnation, String, u64, String, u32, Option<Timestamp>);

/// Compares a device partition.
pub(crate) fn check_partition(view: &dyn View, model: &Partition) -> Checked {
    check_residents(view, model)?;
    let profiles = paged(|after, limit| {
        let found = view.devices(after.as_ref(), limit)?;
        Ok(found.into_iter().map(|profile| (profile.id.clone(), profile)).collect())
    })?;
    for profile in &profiles {
        let Some(device) = model.devices.get(&profile.id) else { continue };
        let state = view.state(profile.slot).map_err(unreadable)?;
        let seen = view.seen(profile.slot).map_err(unreadable)?;
        let what = format!("view of device {}", profile.id);
        Invariant::AS_THE_MODEL.same(what, &Shown::of(profile, &state, seen), &device.shown())?;
        check_history(view, model, device)?;
    }
    let found: Vec<_> = profiles.iter().map(|profile| &profile.id).collect();
    Invariant::AS_THE_MODEL.same("list of devices", &found, &model.devices.keys().collect())?;
    indexes::check(view, model)?;
    check_events(view, model)?;
    check_deliveries(view, model)?;
    quarantine_and_counts::check_quarantine(view, model)?;
    quarantine_and_counts::check_counts(view, model)
}

/// Compares the registry partition.
pub(crate) fn check_registry(view: &dyn View, model: &Registry) -> Checked {
    let clients = paged(|after, limit| {
        let found = view.clients(after.as_ref(), limit)?;
        Ok(found.into_iter().map(|client| (client.id.clone(), client)).collect())
    })?;
    let found: Vec<_> = clients.iter().map(KnownClient::of).collect();
    Invariant::AS_THE_MODEL.same("list of clients", &found, &model.clients.values().cloned().collect())
}

fn check_residents(view: &dyn View, model: &Partition) -> Checked {
    let mut devices = BTreeMap::new();
    let (mut pairs, mut jobs) = (Vec::new(), 0);
    let (mut report_ids, mut quarantined) = (BTreeMap::new(), Vec::new());
    view.device_residents(&mut |resident| match resident {
        DeviceResident::Device(profile, state, seen) => {
            devices.insert(profile.id.clone(), Shown::of(&profile, &state, seen));
        }
        DeviceResident::NotificationState(pair) => pairs.push((pair.slot, pair.client)),
        DeviceResident::Job(_) => jobs += 1,
        DeviceResident::ReportIds(slot, ids) => drop(report_ids.insert(slot, ids.as_slice().to_vec())),
        DeviceResident::Quarantined(key, cost) => quarantined.push((key, cost)),
    })
    .map_err(unreadable)?;
    let expected: BTreeMap<_, _> =
        model.devices.iter().map(|(id, device)| (id.clone(), device.shown())).collect();
    Invariant::AS_THE_MODEL.same("resident devices", &devices, &expected)?;
    Invariant::AS_THE_MODEL.same(
        "resident ids of reports",
        &report_ids,
        &quarantine_and_counts::report_ids(model),
    )?;
    Invariant::AS_THE_MODEL.same(
        "resident quarantine",
        &quarantined,
        &quarantine_and_counts::costs(model),
    )?;
    pairs.sort_unstable();
    let of_device =
        |device: &Device| device.pairs.keys().map(|client| (device.slot, *client)).collect::<Vec<_>>();
    let mut expected: Vec<(DeviceSlot, Incarnation)> = model.devices.values().flat_map(of_device).collect();
    expected.sort_unstable();
    Invariant::AS_THE_MODEL.same("resident pairs", &pairs, &expected)?;
    let waiting = model.devices.values().flat_map(|device| device.pairs.values());
    let waiting = waiting.filter(|pair| pair.pending.is_some() || pair.flight.is_some()).count();
    Invariant::ONE_EFFECT_PER_CAUSE.same("resident jobs", &jobs, &waiting)
}

fn check_history(view: &dyn View, model: &Partition, device: &Device) -> Checked {
    let read = |page: Page<ReadingKey>| {
        let found = view.readings(device.slot, page)?;
        Ok(found
            .into_iter()
            .map(|reading| (ReadingKey { ts: reading.ts, number: reading.number }, reading))
            .collect())
    };
    let found = both_ways(read)?;
    let mut by_number: Vec<_> = found.iter().collect();
    by_number.sort_by_key(|reading| reading.number);
    let numbers: Vec<u32> = by_number.iter().map(|reading| reading.number).collect();
    // What is too old may be there for some days more: it goes with others that it lies together
    // with.
    let listed = |number: &u32, taken: &Taken| taken.age() >= model.kept.readings || numbers.contains(number);
    let listed = (1..).zip(&device.readings).filter(|(number, taken)| listed(number, taken));
    let (expected, readings): (Vec<u32>, Vec<Reading>) =
        listed.map(|(n, of)| (n, of.reading.clone())).unzip();
    Invariant::ONE_EFFECT_PER_CAUSE.same(
        format_args!("numbers of readings of {}", device.id),
        &numbers,
        &expected,
    )?;
    let line = |reading: &records::Reading| Reading {
        ts: reading.ts,
        value: reading.value.clone(),
        changed: reading.changed,
    };
    let lines: Vec<Reading> = by_number.into_iter().map(line).collect();
    Invariant::ORDER_PER_DEVICE.same(format_args!("readings of {}", device.id), &lines, &readings)?;
    let keys: Vec<_> = found.iter().map(|reading| (reading.ts, reading.number)).collect();
    Invariant::AS_THE_MODEL.check(keys.is_sorted(), || format!("readings of {} are out of order", device.id))
}

fn check_events(view: &dyn View, model: &Partition) -> Checked {
    let read = |whose: FeedFilter| {
        both_ways(|page: Page<EventKey>| {
            let found = view.events(whose, page, &|_| true)?;
            Ok(found.into_iter().map(|event| (EventKey::from(event.id), event)).collect())
        })
    };
    let line = |event: &records::Event| Event {
        at: event.id.at,
        kind: event.kind,
        sequence: event.sequence,
        value: event.value.clone(),
        previous: event.previous.clone(),
    };
    for device in model.devices.values() {
        let found = read(FeedFilter { device: Some(device.slot), client: None })?;
        let lines: Vec<Event> = found.iter().map(line).collect();
        Invariant::ONE_EFFECT_PER_CAUSE.same(
            format_args!("events of {}", device.id),
            &lines,
            &model.events_of(device).to_vec(),
        )?;
    }
    let all = read(FeedFilter::default())?;
    let mut of_slots: BTreeMap<DeviceSlot, usize> = BTreeMap::new();
    all.iter().for_each(|event| *of_slots.entry(event.slot).or_default() += 1);
    let expected = model.devices.values().filter(|device| !model.events_of(device).is_empty());
    let expected = expected.map(|device| (device.slot, model.events_of(device).len())).collect();
    Invariant::ONE_EFFECT_PER_CAUSE.same("events by device", &of_slots, &expected)
}

fn check_deliveries(view: &dyn View, model: &Partition) -> Checked {
    let read = |whose: FeedFilter| {
        both_ways(|page: Page<DeliveryKey>| {
            let found = view.deliveries(whose, page, &|_| true)?;
            Ok(found.into_iter().map(|delivery| (DeliveryKey::from(delivery.id), delivery)).collect())
        })
    };
    let all = read(FeedFilter::default())?;
    let found: Vec<DeliveryLine> = all.iter().map(found_line).collect();
    let listed = || model.deliveries.iter().filter(|delivery| model.lists(delivery.id));
    let mut expected: Vec<DeliveryLine> = listed().map(expected_line).collect();
    expected.sort_by_key(|line| (line.0.at, line.0.number));
    Invariant::ONE_EFFECT_PER_CAUSE.same("deliveries", &found, &expected)?;
    for delivery in &model.deliveries {
        check_attempts(view, model, delivery)?;
    }
    let mut places: Vec<_> =
        model.deliveries.iter().map(|delivery| (delivery.slot, delivery.client)).collect();
    places.sort_unstable();
    places.dedup();
    for (slot, client) in places {
        let whose = [(Some(slot), None), (None, Some(client)), (Some(slot), Some(client))];
        for (device, client) in whose {
            let found: Vec<_> =
                read(FeedFilter { device, client })?.iter().map(|delivery| delivery.id).collect();
            let fits = |delivery: &&Delivery| {
                device.is_none_or(|slot| delivery.slot == slot)
                    && client.is_none_or(|client| delivery.client == client)
            };
            let mut expected: Vec<_> = listed().filter(fits).map(|delivery| delivery.id).collect();
            expected.sort_by_key(|id| (id.at, id.number));
            let what = format!("deliveries of device {device:?} to client {client:?}");
            Invariant::AS_THE_MODEL.same(what, &found, &expected)?;
        }
    }
    Ok(())
}

fn found_line(delivery: &records::Delivery) -> DeliveryLine {
    (
        delivery.id,
        delivery.device.to_string(),
        delivery.client,
        format!("{:?} {:?}", delivery.kind, delivery.resend_of),
        delivery.sequence,
        delivery.progress.status.as_str().to_owned(),
        delivery.progress.attempts,
        delivery.progress.next_attempt_at,
    )
}

fn expected_line(delivery: &Delivery) -> DeliveryLine {
    (
        delivery.id,
        delivery.device.to_string(),
        delivery.client,
        format!("{:?} {:?}", delivery.kind, delivery.resend_of),
        delivery.sequence,
        delivery.status.as_str().to_owned(),
        delivery.attempts,
        delivery.due,
    )
}

fn check_attempts(view: &dyn View, model: &Partition, delivery: &Delivery) -> Checked {
    let listed = model.lists(delivery.id);
    let key = DeliveryKey::from(delivery.id);
    let stored = view.delivery(key).map_err(unreadable)?.map(|stored| found_line(&stored));
    Invariant::AS_THE_MODEL.same("delivery by key", &stored, &listed.then(|| expected_line(delivery)))?;
    let attempts = view.attempts(key).map_err(unreadable)?;
    let line = |attempt: &records::Attempt| Attempt {
        number: attempt.number,
        at: attempt.at,
        took_ms: attempt.duration_ms,
        status_code: attempt.status_code,
        error: attempt.error,
    };
    let found: Vec<Attempt> = attempts.iter().map(line).collect();
    let log = if listed { delivery.log.clone() } else { Vec::new() };
    Invariant::AS_THE_MODEL.same(format_args!("attempts of {:?}", delivery.id), &found, &log)
}
