//! What a report looks like on each way in, flaws included.

use super::PayloadFormat;
use crate::traffic::{DeviceIds, Flaw, SimulatedReport};
use crate::wire_time::format_ms;

/// How far ahead the time of a report from the future lies; a server lets five minutes pass.
const FUTURE_MS: i64 = 60 * 60 * 1000;

/// A value that no lock has.
const NO_LOCK_VALUE: u8 = 2;

/// Appends `report` as it goes over MQTT, where the topic names the device.
pub(super) fn write_mqtt(form: PayloadFormat, report: SimulatedReport, out: &mut Vec<u8>) {
    match form {
        PayloadFormat::Value => match report.flaw {
            Some(Flaw::CutShort | Flaw::FromTheFuture) => out.push(b'{'),
            Some(Flaw::NoSuchValue) | None => write_number(value(report).into(), out),
        },
        PayloadFormat::Dated | PayloadFormat::Identified { .. } => {
            out.push(b'{');
            write_rest(form, report, out);
        }
    }
}

/// Appends `report` as one line of a body; it always carries its time.
pub(super) fn write_line(
    form: PayloadFormat,
    devices: &DeviceIds,
    report: SimulatedReport,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"device_id\":\"");
    devices.write(report.device, out);
    out.extend_from_slice(b"\",");
    write_rest(form, report, out);
    out.push(b'\n');
}

/// Appends `report` as a message for a queue; it always carries its time.
pub(super) fn write_message(
    form: PayloadFormat,
    devices: &DeviceIds,
    report: SimulatedReport,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"sensor_id\":\"");
    devices.write(report.device, out);
    out.extend_from_slice(b"\",");
    write_rest(form, report, out);
}

/// The id of `report` among those of its device, if reports have any.
pub(super) fn id_of(form: PayloadFormat, report: SimulatedReport) -> Option<String> {
    match form {
        PayloadFormat::Identified { run } => Some(format!("{run:x}-{}", report.number)),
        PayloadFormat::Value | PayloadFormat::Dated => None,
    }
}

fn write_rest(form: PayloadFormat, report: SimulatedReport, out: &mut Vec<u8>) {
    let ahead_ms = if report.flaw == Some(Flaw::FromTheFuture) { FUTURE_MS } else { 0 };
    out.extend_from_slice(b"\"data\":");
    write_number(value(report).into(), out);
    out.extend_from_slice(b",\"ts\":\"");
    out.extend_from_slice(format_ms(report.ts_ms + ahead_ms).as_bytes());
    out.push(b'"');
    if let PayloadFormat::Identified { run } = form {
        out.extend_from_slice(b",\"id\":\"");
        write_hex(run, out);
        out.push(b'-');
        write_number(report.number.into(), out);
        out.push(b'"');
    }
    if report.flaw != Some(Flaw::CutShort) {
        out.push(b'}');
    }
}

const fn value(report: SimulatedReport) -> u8 {
    match report.flaw {
        Some(Flaw::NoSuchValue) => NO_LOCK_VALUE,
        _ => report.value,
    }
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    write_digits(number, 10, out);
}

fn write_hex(number: u64, out: &mut Vec<u8>) {
    write_digits(number, 16, out);
}

/// Appends `number` in `base`, without a detour through a `String`: this is done for each report.
fn write_digits(mut number: u64, base: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b"0123456789abcdef"[(number % base) as usize]);
        number /= base;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 0x1f;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("it is UTF-8")
    }

    fn report() -> SimulatedReport {
        SimulatedReport { number: 120, ..SimulatedReport::plain(1, 0, 1) }
    }

    #[test]
    fn each_way_has_its_form() {
        let devices = DeviceIds::new("d", 3);
        let mqtt = |form| text(|out| write_mqtt(form, report(), out));
        assert_eq!(mqtt(PayloadFormat::Value), "1");
        assert_eq!(mqtt(PayloadFormat::Dated), r#"{"data":1,"ts":"1970-01-01T00:00:00.000Z"}"#);
        let identified = PayloadFormat::Identified { run: RUN };
        assert_eq!(mqtt(identified), r#"{"data":1,"ts":"1970-01-01T00:00:00.000Z","id":"1f-120"}"#);
        assert_eq!(id_of(identified, report()).as_deref(), Some("1f-120"));
        assert_eq!(
            text(|out| write_line(PayloadFormat::Dated, &devices, report(), out)),
            "{\"device_id\":\"d1\",\"data\":1,\"ts\":\"1970-01-01T00:00:00.000Z\"}\n"
        );
        assert_eq!(
            text(|out| write_message(PayloadFormat::Dated, &devices, report(), out)),
            r#"{"sensor_id":"d1","data":1,"ts":"1970-01-01T00:00:00.000Z"}"#
        );
    }

    #[test]
    fn a_flaw_is_one_that_no_server_may_accept() {
        let flawed = |flaw, form| {
            let report = SimulatedReport { flaw: Some(flaw), ..report() };
            text(|out| write_mqtt(form, report, out))
        };
        let dated = PayloadFormat::Dated;
        assert_eq!(flawed(Flaw::NoSuchValue, dated), r#"{"data":2,"ts":"1970-01-01T00:00:00.000Z"}"#);
        assert_eq!(flawed(Flaw::FromTheFuture, dated), r#"{"data":1,"ts":"1970-01-01T01:00:00.000Z"}"#);
        for (flaw, form) in [
            (Flaw::CutShort, dated),
            (Flaw::CutShort, PayloadFormat::Value),
            (Flaw::FromTheFuture, PayloadFormat::Value),
            (Flaw::CutShort, PayloadFormat::Identified { run: RUN }),
        ] {
            let payload = flawed(flaw, form);
            assert!(serde_json::from_str::<serde_json::Value>(&payload).is_err(), "{payload}");
        }
    }
}
