//! The primitives of every stored format: LEB128 varints, zigzag for signed numbers, and bytes
//! behind their length.

use super::CodecError;

/// Most items for which room is made before they are read.
const LIST_RESERVED_MAX: usize = 1_024;

/// Appends an unsigned varint: 7 bits a byte, lowest first.
pub(crate) fn put_u64(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed varint: zigzag, so that small numbers of either sign are short.
pub(crate) fn put_i64(out: &mut Vec<u8>, number: i64) {
    put_u64(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends whether there is one, and it.
pub(super) fn put_option<T>(out: &mut Vec<u8>, item: Option<&T>, put: impl Fn(&mut Vec<u8>, &T)) {
    out.push(u8::from(item.is_some()));
    if let Some(item) = item {
        put(out, item);
    }
}

/// Reads what the functions of this module wrote, from front to back.
#[derive(Clone, Debug)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn invalid(&self, what: &'static str) -> CodecError {
        CodecError::Invalid { what, at: self.at }
    }

    pub(crate) fn end(&self) -> Result<(), CodecError> {
        if self.is_at_end() { Ok(()) } else { Err(CodecError::LeftOver { at: self.at }) }
    }

    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], CodecError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(CodecError::Truncated { what, at: self.at })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CodecError> {
        let at = self.at;
        self.take(N, what)?.try_into().map_err(|_| CodecError::Truncated { what, at })
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, CodecError> {
        let byte = self.bytes.get(self.at).copied().ok_or(CodecError::Truncated { what, at: self.at })?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, CodecError> {
        let at = self.at;
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(CodecError::Invalid { what, at })
    }

    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64, CodecError> {
        let number = self.u64(what)?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, CodecError> {
        let at = self.at;
        u32::try_from(self.u64(what)?).map_err(|_| CodecError::Invalid { what, at })
    }

    /// A length or count; checked against what is left only when it is used.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<usize, CodecError> {
        let at = self.at;
        usize::try_from(self.u64(what)?).map_err(|_| CodecError::Invalid { what, at })
    }

    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], CodecError> {
        let length = self.length(what)?;
        self.take(length, what)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a str, CodecError> {
        let at = self.at;
        std::str::from_utf8(self.bytes(what)?).map_err(|_| CodecError::Invalid { what, at })
    }

    /// Text that must have a certain form.
    pub(crate) fn text_as<T>(
        &mut self,
        what: &'static str,
        form: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CodecError> {
        let at = self.at;
        form(self.text(what)?).ok_or(CodecError::Invalid { what, at })
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool, CodecError> {
        self.choice(what, &[false, true])
    }

    /// One of a list, by its place.
    pub(crate) fn choice<T: Copy>(&mut self, what: &'static str, of: &[T]) -> Result<T, CodecError> {
        let at = self.at;
        let place = usize::from(self.u8(what)?);
        of.get(place).copied().ok_or(CodecError::Invalid { what, at })
    }

    pub(crate) fn option<T>(
        &mut self,
        what: &'static str,
        get: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        if self.bool(what)? { get(self).map(Some) } else { Ok(None) }
    }

    /// A list; grows only as items are read, so that a wrong length asks for no memory.
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        get: impl Fn(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        let length = self.length(what)?;
        let mut items = Vec::with_capacity(length.min(self.bytes.len() - self.at).min(LIST_RESERVED_MAX));
        for _ in 0..length {
            items.push(get(self)?);
        }
        Ok(items)
    }
}
