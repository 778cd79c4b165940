//! Paths of the API, whatever characters are in their parts.

use std::fmt::Write;

/// A path below the server's root, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: String,
    has_parameters: bool,
}

impl Path {
    /// The path below `/v1` with these parts, whatever characters they have.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        Self::encoded("/v1").and(parts)
    }

    /// A path that is encoded already, parameters too, such as `/readyz`. It begins with a slash.
    #[must_use]
    pub fn encoded(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { has_parameters: text.contains('?'), text }
    }

    /// With these parts behind the others.
    #[must_use]
    pub fn and(mut self, parts: &[&str]) -> Self {
        for part in parts {
            self.text.push('/');
            // Dots alone would be taken for steps along the path.
            if part.bytes().all(|byte| byte == b'.') {
                self.text.push_str(&"%2E".repeat(part.len()));
            } else {
                self.encode(part);
            }
        }
        self
    }

    /// With one more part that names several things.
    #[must_use]
    pub fn and_any_of(mut self, names: &[impl AsRef<str>]) -> Self {
        for (place, name) in names.iter().enumerate() {
            self.text.push(if place == 0 { '/' } else { ',' });
            self.encode(name.as_ref());
        }
        self
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_parameters { '&' } else { '?' });
        self.has_parameters = true;
        self.encode(name);
        self.text.push('=');
        self.encode(value);
        self
    }

    /// Its text, encoded.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn encode(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                self.text.push(char::from(byte));
            } else {
                let written = write!(self.text, "%{byte:02X}");
                debug_assert!(written.is_ok(), "a String takes every write");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_leads_out_of_its_place() {
        for (parts, text) in [
            (&["queues", "shop", "mail"][..], "/v1/queues/shop/mail"),
            (&["a/b?#% é"], "/v1/a%2Fb%3F%23%25%20%C3%A9"),
            (&["..", ".", "a.b", ""], "/v1/%2E%2E/%2E/a.b/"),
        ] {
            assert_eq!(Path::of(parts).as_str(), text);
        }
        let several = Path::of(&["a"]).and_any_of(&["b", "c,d"]).and(&["e"]);
        assert_eq!(several.as_str(), "/v1/a/b,c%2Cd/e");
        let asked = Path::of(&["queues"]).with("namespace", "a&b").with("label.=", "5");
        assert_eq!(asked.as_str(), "/v1/queues?namespace=a%26b&label.%3D=5");
        let encoded = Path::encoded("/v1/queues?limit=5").with("namespace", "a");
        assert_eq!(encoded.as_str(), "/v1/queues?limit=5&namespace=a");
    }
}
