//! A section: the readings of one run, in columns.

use base::{Timestamp, Value};
use records::Reading;

use super::head::RUN_READINGS_MAX;
use super::texts::{SharedTexts, Texts};
use crate::codec::{ByteReader, CodecError, bit, put_i64, put_u64};

/// The section is of one reading.
const SINGLE: u8 = 1 << 0;
const SINGLE_CHANGED: u8 = 1 << 1;
const SINGLE_CODE_SHIFT: u32 = 2;
const CODE_FOLLOWS: u8 = 2;
/// Texts of the section's own stand behind the flags.
const OWN_TEXTS: u8 = 1 << 7;

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

/// Appends the section of a run, which is not empty.
pub(super) fn put(out: &mut Vec<u8>, shared: &SharedTexts, run: &[&Reading]) {
    let texts = Texts::of(shared, run.iter().map(|reading| &reading.value));
    let own = if texts.has_own() { OWN_TEXTS } else { 0 };
    match run {
        [] => {}
        [single] => put_single(out, &texts, own, single),
        [first, ..] => put_many(out, &texts, own, first, run),
    }
}

fn put_single(out: &mut Vec<u8>, texts: &Texts<'_>, own: u8, single: &Reading) {
    let code = match &single.value {
        Value::Number(number) if *number == 0.0 => 0,
        Value::Number(number) if *number == 1.0 => 1,
        _ => CODE_FOLLOWS,
    };
    let changed = if single.changed { SINGLE_CHANGED } else { 0 };
    out.push(SINGLE | changed | code << SINGLE_CODE_SHIFT | own);
    if texts.has_own() {
        texts.put_own(out);
    }
    put_u64(out, u64::from(single.number));
    if code == CODE_FOLLOWS {
        texts.put_code(out, &single.value);
    }
}

fn put_many(out: &mut Vec<u8>, texts: &Texts<'_>, own: u8, first: &Reading, many: &[&Reading]) {
    let (times, steady) = times(many);
    let (numbers, consecutive) = numbers(many);
    let (values, values_mode) = values(texts, many);
    let (changed, changed_mode) = changed(many);
    out.push(
        own | if consecutive { CONSECUTIVE } else { 0 }
            | if steady { STEADY } else { 0 }
            | values_mode << VALUES_SHIFT
            | changed_mode << CHANGED_SHIFT,
    );
    if texts.has_own() {
        texts.put_own(out);
    }
    put_u64(out, many.len() as u64);
    put_u64(out, u64::from(first.number));
    for column in [times, numbers, values, changed] {
        out.extend_from_slice(&column);
    }
}

/// The times after the first, in the shorter of two forms.
fn times(many: &[&Reading]) -> (Vec<u8>, bool) {
    let mut plain = Vec::with_capacity(many.len() * 3);
    let mut steady = Vec::with_capacity(many.len() * 2);
    let mut before = 0_u64;
    for pair in many.windows(2) {
        let step = pair[1].ts.0.wrapping_sub(pair[0].ts.0).cast_unsigned();
        put_u64(&mut plain, step);
        put_i64(&mut steady, step.wrapping_sub(before).cast_signed());
        before = step;
    }
    if steady.len() < plain.len() { (steady, true) } else { (plain, false) }
}

fn numbers(many: &[&Reading]) -> (Vec<u8>, bool) {
    let step = |pair: &[&Reading]| i64::from(pair[1].number) - i64::from(pair[0].number);
    let mut steps = Vec::new();
    if many.windows(2).all(|pair| step(pair) == 1) {
        return (steps, true);
    }
    many.windows(2).for_each(|pair| put_i64(&mut steps, step(pair)));
    (steps, false)
}

fn values(texts: &Texts<'_>, many: &[&Reading]) -> (Vec<u8>, u8) {
    let mut runs = Vec::new();
    let mut count = 0;
    for run in many.chunk_by(|a, b| a.value == b.value) {
        count += 1;
        texts.put_code(&mut runs, &run[0].value);
        put_u64(&mut runs, run.len() as u64);
    }
    if count == 1 {
        let mut one = Vec::new();
        texts.put_code(&mut one, &many[0].value);
        return (one, VALUES_ONE);
    }
    let is_one = |reading: &&Reading| reading.value == bit(true);
    if many.iter().all(|reading| reading.value.is_bit()) && many.len().div_ceil(8) < runs.len() {
        return (bits(many.iter().map(is_one)), VALUES_BITS);
    }
    let mut each = Vec::new();
    many.iter().for_each(|reading| texts.put_code(&mut each, &reading.value));
    if each.len() < runs.len() { (each, VALUES_EACH) } else { (runs, VALUES_RUNS) }
}

fn changed(many: &[&Reading]) -> (Vec<u8>, u8) {
    let flags: Vec<bool> = many.iter().map(|reading| reading.changed).collect();
    let differs = |pair: &[&Reading]| pair[1].value != pair[0].value;
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

/// Reads what [`put`] wrote.
pub(super) struct Section<'a> {
    /// The time of the first reading.
    pub(super) first: Timestamp,
    pub(super) texts: &'a SharedTexts,
    /// The blob's count: no section has more.
    pub(super) count_max: usize,
}

impl Section<'_> {
    pub(super) fn readings(&self, reader: &mut ByteReader<'_>) -> Result<Vec<Reading>, CodecError> {
        let flags = reader.u8("flags")?;
        let texts = Texts::get(self.texts, reader, flags & OWN_TEXTS != 0)?;
        if flags & SINGLE != 0 {
            return Ok(vec![self.single(reader, &texts, flags)?]);
        }
        let (times, first_number) = self.times_and_first_number(reader, flags)?;
        let count = times.len();
        let numbers = get_numbers(reader, first_number, count, flags & CONSECUTIVE != 0)?;
        let values = get_values(reader, &texts, count, flags >> VALUES_SHIFT & MODE)?;
        let changed = get_changed(reader, &values, flags >> CHANGED_SHIFT & MODE)?;
        let columns = times.into_iter().zip(numbers).zip(values).zip(changed);
        Ok(columns.map(|(((ts, number), value), changed)| Reading { number, ts, value, changed }).collect())
    }

    /// The times alone; what follows them is not read.
    pub(super) fn times(&self, reader: &mut ByteReader<'_>) -> Result<Vec<Timestamp>, CodecError> {
        let flags = reader.u8("flags")?;
        if flags & SINGLE != 0 {
            return Ok(vec![self.first]);
        }
        Texts::get(self.texts, reader, flags & OWN_TEXTS != 0)?;
        self.times_and_first_number(reader, flags).map(|(times, _)| times)
    }

    fn single(
        &self,
        reader: &mut ByteReader<'_>,
        texts: &Texts<'_>,
        flags: u8,
    ) -> Result<Reading, CodecError> {
        let number = reader.u32("a number")?;
        let value = match flags >> SINGLE_CODE_SHIFT & MODE {
            code @ (0 | 1) => bit(code == 1),
            CODE_FOLLOWS => texts.get_coded(reader)?,
            _ => return Err(reader.invalid("a value")),
        };
        Ok(Reading { number, ts: self.first, value, changed: flags & SINGLE_CHANGED != 0 })
    }

    fn times_and_first_number(
        &self,
        reader: &mut ByteReader<'_>,
        flags: u8,
    ) -> Result<(Vec<Timestamp>, u32), CodecError> {
        let count = reader.length("a count")?;
        if count < 2 || count > self.count_max {
            return Err(reader.invalid("a count"));
        }
        let first_number = reader.u32("a number")?;
        Ok((get_times(reader, self.first.0, count, flags & STEADY != 0)?, first_number))
    }
}

fn get_values(
    reader: &mut ByteReader<'_>,
    texts: &Texts<'_>,
    count: usize,
    mode: u8,
) -> Result<Vec<Value>, CodecError> {
    match mode {
        VALUES_ONE => Ok(vec![texts.get_coded(reader)?; count]),
        VALUES_BITS => Ok(get_bits(reader, count)?.into_iter().map(bit).collect()),
        VALUES_RUNS => {
            let mut values = Vec::with_capacity(count.min(RUN_READINGS_MAX));
            while values.len() < count {
                let value = texts.get_coded(reader)?;
                let run = reader.length("a run")?;
                if run == 0 || run > count - values.len() {
                    return Err(reader.invalid("a run"));
                }
                values.extend(std::iter::repeat_n(value, run));
            }
            Ok(values)
        }
        _ => (0..count).map(|_| texts.get_coded(reader)).collect(),
    }
}

fn get_times(
    reader: &mut ByteReader<'_>,
    first: i64,
    count: usize,
    steady: bool,
) -> Result<Vec<Timestamp>, CodecError> {
    let mut times = Vec::with_capacity(count.min(RUN_READINGS_MAX));
    times.push(Timestamp(first));
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
    reader: &mut ByteReader<'_>,
    first: u32,
    count: usize,
    consecutive: bool,
) -> Result<Vec<u32>, CodecError> {
    let mut numbers = Vec::with_capacity(count.min(RUN_READINGS_MAX));
    numbers.push(first);
    let mut last = i64::from(first);
    for _ in 1..count {
        let step = if consecutive { 1 } else { reader.i64("a number")? };
        last = last.wrapping_add(step);
        numbers.push(u32::try_from(last).map_err(|_| reader.invalid("a number"))?);
    }
    Ok(numbers)
}

fn get_changed(reader: &mut ByteReader<'_>, values: &[Value], mode: u8) -> Result<Vec<bool>, CodecError> {
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

fn get_bits(reader: &mut ByteReader<'_>, count: usize) -> Result<Vec<bool>, CodecError> {
    let bytes = reader.take(count.div_ceil(8), "flags")?;
    Ok((0..count).map(|at| bytes[at / 8] >> (at % 8) & 1 == 1).collect())
}
