//! A device's value: one byte for 0 and 1, little more for whole numbers, else its bits or its
//! text.

use base::Value;

use super::CodecError;
use super::bytes::{ByteReader, put_bytes, put_i64};

const ZERO: u8 = 0;
const ONE: u8 = 1;
const WHOLE: u8 = 2;
const DOUBLE: u8 = 3;
const TEXT: u8 = 4;

/// The largest whole number that a varint writes shorter than its bits.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The value 0 or 1.
pub(crate) fn bit(is_one: bool) -> Value {
    Value::Number(if is_one { 1.0 } else { 0.0 })
}

pub(crate) fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Number(number) if value.is_bit() => out.push(if *number == 0.0 { ZERO } else { ONE }),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => {
            out.push(WHOLE);
            put_i64(out, *number as i64);
        }
        Value::Number(number) => {
            out.push(DOUBLE);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            out.push(TEXT);
            put_bytes(out, text.as_bytes());
        }
    }
}

pub(crate) fn get_value(reader: &mut ByteReader<'_>) -> Result<Value, CodecError> {
    const WHAT: &str = "a value";
    let tag = reader.u8(WHAT)?;
    match tag {
        ZERO | ONE => Ok(bit(tag == ONE)),
        WHOLE => {
            let whole = reader.i64(WHAT)?;
            let number = whole as f64;
            let exact = number.abs() < WHOLE_MAX;
            Value::number(number).filter(|_| exact).ok_or_else(|| reader.invalid(WHAT))
        }
        DOUBLE => {
            let number = f64::from_bits(u64::from_le_bytes(reader.array(WHAT)?));
            Value::number(number).ok_or_else(|| reader.invalid(WHAT))
        }
        TEXT => reader.text_as(WHAT, canonical),
        _ => Err(reader.invalid(WHAT)),
    }
}

/// Goes on behind a value.
pub(crate) fn skip_value(reader: &mut ByteReader<'_>) -> Result<(), CodecError> {
    const WHAT: &str = "a value";
    match reader.u8(WHAT)? {
        ZERO | ONE => Ok(()),
        WHOLE => reader.i64(WHAT).map(drop),
        DOUBLE => reader.take(8, WHAT).map(drop),
        TEXT => reader.bytes(WHAT).map(drop),
        _ => Err(reader.invalid(WHAT)),
    }
}

/// Text that no number begins with.
fn canonical(text: &str) -> Option<Value> {
    let numeric = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    (!numeric && !text.is_empty()).then(|| Value::from_canonical(text))
}
