//! The signature of an attempt, as Standard Webhooks defines it: an HMAC over id, time and body.
//!
//! A key is prepared once for each version of a client; signing clones its state and never sees the
//! secret again.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes of a signature: `v1,` and 32 bytes in base64.
const SIGNATURE_BYTES: usize = 3 + 44;

/// A client's secret, ready to sign with.
#[derive(Clone)]
pub(crate) struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// The key made of a client's secret bytes.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"))
    }

    /// The value of `webhook-signature`; `seconds` is the value of `webhook-timestamp`.
    pub(crate) fn sign(&self, id: &str, seconds: &str, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
            mac.update(part);
        }
        let mut signature = String::with_capacity(SIGNATURE_BYTES);
        signature.push_str("v1,");
        BASE64_STANDARD.encode_string(mac.finalize().into_bytes(), &mut signature);
        signature
    }
}

impl fmt::Debug for SigningKey {
    /// Leaves the key out: it must never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

#[cfg(test)]
mod tests {
    use standardwebhooks::Webhook;

    use super::*;

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let long = vec![b'x'; 10_000];
        let bodies: [&[u8]; 3] = [b"", br#"{"type":"device.changed"}"#, &long];
        for secret in [&b"0123456789abcdef01234567"[..], &[0; 64], &[0xff; 100]] {
            let webhook = Webhook::from_bytes(secret.to_vec()).expect("a secret");
            for body in bodies {
                let expect = webhook.sign("msg_abc", 1_795_222_923, body).expect("signed");
                assert_eq!(SigningKey::new(secret).sign("msg_abc", "1795222923", body), expect);
                assert_eq!(expect.len(), SIGNATURE_BYTES);
            }
        }
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", SigningKey::new(b"secret")), "SigningKey");
    }
}
