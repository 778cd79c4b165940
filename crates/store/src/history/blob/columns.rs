//! The columns of a section: many readings of one device.

use base::{Timestamp, Value};
use records::Reading;

use super::SliceReading;
use crate::codec::{CodecError, Reader, bit, get_value, put_bytes, put_i64, put_u64, put_value};

/// The numbers go up by one.
const CONSECUTIVE: u8 = 1 << 1;
/// Times are stored as differences of differences.
const STEADY: u8 = 1 << 2;
const VALUES_SHIFT: u32 = 3;
const CHANGED_SHIFT: u32 = 5;
const MODE: u8 = 0b11;

const VALUES_ONE: u8 = 0;
const VALUES_BITS: u8 = 1;
const VALUES_RUNS: u8 = 2;
const VALUES_EACH: u8 = 3;

const CHANGED_NONE: u8 = 0;
/// Wherever the value is another than before; not the first.
const CHANGED_AFTER_FIRST: u8 = 1;
/// The first, and wherever the value is another than before.
const CHANGED_AND_FIRST: u8 = 2;
const CHANGED_BITS: u8 = 3;

const CODE_INLINE: u64 = 2;
const CODE_TEXTS: u64 = 3;

/// The texts of a blob, each once.
pub(super) struct Texts<'a>(Vec<&'a str>);

impl<'a> Texts<'a> {
    pub(super) fn of(values: impl Iterator<Item = &'a Value>) -> Self {
        let text = |value: &'a Value| match value {
            Value::Text(text) => Some(&**text),
            Value::Number(_) => None,
        };
        let mut texts: Vec<_> = values.filter_map(text).collect();
        texts.sort_unstable();
        texts.dedup();
        Self(texts)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        self.0.iter().for_each(|text| put_bytes(out, text.as_bytes()));
    }

    pub(super) fn put_code(&self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Number(number) if value.is_bit() => put_u64(out, u64::from(*number == 1.0)),
            Value::Number(_) => {
                put_u64(out, CODE_INLINE);
                put_value(out, value);
            }
            Value::Text(text) => {
                // every text of the blob is in the list
                let place = self.0.partition_point(|other| *other < &**text);
                put_u64(out, CODE_TEXTS + place as u64);
            }
        }
    }
}

pub(super) fn get_text(reader: &mut Reader<'_>) -> Result<Value, CodecError> {
    let text = reader.text("a text")?;
    if text.is_empty() || text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(reader.invalid("a text"));
    }
    Ok(Value::from_canonical(text))
}

pub(super) fn get_coded(reader: &mut Reader<'_>, texts: &[Value]) -> Result<Value, CodecError> {
    match reader.u64("a value")? {
        code @ (0 | 1) => Ok(bit(code == 1)),
        CODE_INLINE => get_value(reader),
        code => {
            let place = usize::try_from(code - CODE_TEXTS).ok();
            place.and_then(|place| texts.get(place)).cloned().ok_or_else(|| reader.invalid("a text"))
        }
    }
}

/// Appends the section of one device with several readings.
pub(super) fn put(out: &mut Vec<u8>, base: i64, texts: &Texts<'_>, many: &[SliceReading]) {
    let Some(first) = many.first() else { return };
    let (times, steady) = times(many);
    let (numbers, consecutive) = numbers(many);
    let (values, values_mode) = values(texts, many);
    let (changed, changed_mode) = changed(many);
    let mut body = Vec::with_capacity(16 + times.len() + numbers.len() + values.len() + changed.len());
    put_u64(&mut body, many.len() as u64);
    put_u64(&mut body, first.reading.ts.0.wrapping_sub(base).cast_unsigned());
    put_u64(&mut body, u64::from(first.reading.number));
    for column in [times, numbers, values, changed] {
        body.extend_from_slice(&column);
    }
    out.push(first.within);
    out.push(
        if consecutive { CONSECUTIVE } else { 0 }
            | if steady { STEADY } else { 0 }
            | values_mode << VALUES_SHIFT
            | changed_mode << CHANGED_SHIFT,
    );
    put_bytes(out, &body);
}

/// The times after the first, in the shorter of two forms.
fn times(many: &[SliceReading]) -> (Vec<u8>, bool) {
    let mut plain = Vec::with_capacity(many.len() * 3);
    let mut steady = Vec::with_capacity(many.len() * 2);
    let mut before = 0_u64;
    for pair in many.windows(2) {
        let step = pair[1].reading.ts.0.wrapping_sub(pair[0].reading.ts.0).cast_unsigned();
        put_u64(&mut plain, step);
        put_i64(&mut steady, step.wrapping_sub(before).cast_signed());
        before = step;
    }
    if steady.len() < plain.len() { (steady, true) } else { (plain, false) }
}

fn numbers(many: &[SliceReading]) -> (Vec<u8>, bool) {
    let step = |pair: &[SliceReading]| i64::from(pair[1].reading.number) - i64::from(pair[0].reading.number);
    let mut steps = Vec::new();
    if many.windows(2).all(|pair| step(pair) == 1) {
        return (steps, true);
    }
    many.windows(2).for_each(|pair| put_i64(&mut steps, step(pair)));
    (steps, false)
}

fn values(texts: &Texts<'_>, many: &[SliceReading]) -> (Vec<u8>, u8) {
    let mut runs = Vec::new();
    let mut count = 0;
    for run in many.chunk_by(|a, b| a.reading.value == b.reading.value) {
        count += 1;
        texts.put_code(&mut runs, &run[0].reading.value);
        put_u64(&mut runs, run.len() as u64);
    }
    if count == 1 {
        let mut one = Vec::new();
        texts.put_code(&mut one, &many[0].reading.value);
        return (one, VALUES_ONE);
    }
    let is_one = |reading: &SliceReading| reading.reading.value == bit(true);
    if many.iter().all(|reading| reading.reading.value.is_bit()) && many.len().div_ceil(8) < runs.len() {
        return (bits(many.iter().map(is_one)), VALUES_BITS);
    }
    let mut each = Vec::new();
    many.iter().for_each(|reading| texts.put_code(&mut each, &reading.reading.value));
    if each.len() < runs.len() { (each, VALUES_EACH) } else { (runs, VALUES_RUNS) }
}

fn changed(many: &[SliceReading]) -> (Vec<u8>, u8) {
    let flags: Vec<bool> = many.iter().map(|reading| reading.reading.changed).collect();
    let differs = |pair: &[SliceReading]| pair[1].reading.value != pair[0].reading.value;
    let derived = many.windows(2).map(differs).eq(flags.iter().skip(1).copied());
    match flags.first() {
        _ if flags.iter().all(|flag| !flag) => (Vec::new(), CHANGED_NONE),
        Some(true) if derived => (Vec::new(), CHANGED_AND_FIRST),
        _ if derived => (Vec::new(), CHANGED_AFTER_FIRST),
        _ => (bits(flags.into_iter()), CHANGED_BITS),
    }
}

fn bits(flags: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, flag) in flags.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(flag) << (at % 8);
        }
    }
    out
}

/// Reads what [`put`] wrote behind the length.
pub(super) struct Column<'a> {
    pub(super) base: i64,
    pub(super) texts: &'a [Value],
    /// The blob's count: no section has more.
    pub(super) count_max: usize,
}

impl Column<'_> {
    pub(super) fn readings(&self, reader: &mut Reader<'_>, flags: u8) -> Result<Vec<Reading>, CodecError> {
        let (times, first_number) = self.times_and_first_number(reader, flags)?;
        let count = times.len();
        let numbers = get_numbers(reader, first_number, count, flags & CONSECUTIVE != 0)?;
        let values = self.get_values(reader, count, flags >> VALUES_SHIFT & MODE)?;
        let changed = get_changed(reader, &values, flags >> CHANGED_SHIFT & MODE)?;
        let columns = times.into_iter().zip(numbers).zip(values).zip(changed);
        Ok(columns.map(|(((ts, number), value), changed)| Reading { number, ts, value, changed }).collect())
    }

    /// The times alone; what follows them is not read.
    pub(super) fn times(&self, reader: &mut Reader<'_>, flags: u8) -> Result<Vec<Timestamp>, CodecError> {
        self.times_and_first_number(reader, flags).map(|(times, _)| times)
    }

    fn times_and_first_number(
        &self,
        reader: &mut Reader<'_>,
        flags: u8,
    ) -> Result<(Vec<Timestamp>, u32), CodecError> {
        let count = reader.length("a count")?;
        if count < 2 || count > self.count_max {
            return Err(reader.invalid("a count"));
        }
        let first_ts = self.base.wrapping_add(reader.u64("a time")?.cast_signed());
        let first_number = reader.u32("a number")?;
        Ok((get_times(reader, first_ts, count, flags & STEADY != 0)?, first_number))
    }

    fn get_values(&self, reader: &mut Reader<'_>, count: usize, mode: u8) -> Result<Vec<Value>, CodecError> {
        match mode {
            VALUES_ONE => Ok(vec![get_coded(reader, self.texts)?; count]),
            VALUES_BITS => Ok(get_bits(reader, count)?.into_iter().map(bit).collect()),
            VALUES_RUNS => {
                let mut values = Vec::new();
                while values.len() < count {
                    let value = get_coded(reader, self.texts)?;
                    let run = reader.length("a run")?;
                    if run == 0 || run > count - values.len() {
                        return Err(reader.invalid("a run"));
                    }
                    values.extend(std::iter::repeat_n(value, run));
                }
                Ok(values)
            }
            _ => (0..count).map(|_| get_coded(reader, self.texts)).collect(),
        }
    }
}

fn get_times(
    reader: &mut Reader<'_>,
    first: i64,
    count: usize,
    steady: bool,
) -> Result<Vec<Timestamp>, CodecError> {
    let mut times = vec![Timestamp(first)];
    let (mut last, mut step) = (first, 0_u64);
    for _ in 1..count {
        step = match steady {
            true => step.wrapping_add(reader.i64("a time")?.cast_unsigned()),
            false => reader.u64("a time")?,
        };
        last = last.wrapping_add(step.cast_signed());
        times.push(Timestamp(last));
    }
    Ok(times)
}

fn get_numbers(
    reader: &mut Reader<'_>,
    first: u32,
    count: usize,
    consecutive: bool,
) -> Result<Vec<u32>, CodecError> {
    let mut numbers = vec![first];
    let mut last = i64::from(first);
    for _ in 1..count {
        let step = if consecutive { 1 } else { reader.i64("a number")? };
        last = last.wrapping_add(step);
        numbers.push(u32::try_from(last).map_err(|_| reader.invalid("a number"))?);
    }
    Ok(numbers)
}

fn get_changed(reader: &mut Reader<'_>, values: &[Value], mode: u8) -> Result<Vec<bool>, CodecError> {
    let derived = |first| {
        let differs = values.windows(2).map(|pair| pair[0] != pair[1]);
        std::iter::once(first).chain(differs).collect()
    };
    match mode {
        CHANGED_NONE => Ok(vec![false; values.len()]),
        CHANGED_AFTER_FIRST => Ok(derived(false)),
        CHANGED_AND_FIRST => Ok(derived(true)),
        _ => get_bits(reader, values.len()),
    }
}

fn get_bits(reader: &mut Reader<'_>, count: usize) -> Result<Vec<bool>, CodecError> {
    let bytes = reader.take(count.div_ceil(8), "flags")?;
    Ok((0..count).map(|at| bytes[at / 8] >> (at % 8) & 1 == 1).collect())
}
