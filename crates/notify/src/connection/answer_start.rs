//! The first bytes of an answer's body, which are kept for whoever asks why an attempt failed.

/// The first bytes of a body, as far as they are kept.
#[derive(Debug)]
pub struct AnswerStart {
    bytes: Vec<u8>,
    max: usize,
    reads: bool,
}

impl AnswerStart {
    /// Keeps at most so many bytes. With `reads` they are also read from a connection that is of no
    /// use after them.
    #[must_use]
    pub fn of(max: usize, reads: bool) -> Self {
        Self { bytes: Vec::new(), max, reads }
    }

    /// How many bytes are wanted of a connection that is of no use after them.
    pub(super) fn wants(&self) -> u64 {
        if self.reads { (self.max - self.bytes.len()) as u64 } else { 0 }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let room = self.max - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    /// What was kept; `None` if the answer had no body.
    #[must_use]
    pub fn into_bytes(self) -> Option<Box<[u8]>> {
        (!self.bytes.is_empty()).then(|| self.bytes.into())
    }
}
