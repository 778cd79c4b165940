//! What the browser lets the console do: its own scripts and styles, and this server alone.

use axum::http::HeaderValue;

/// Whose pages may embed the page of a portal.
#[derive(Clone, Debug, Default)]
pub struct FrameAncestors(Vec<String>);

impl FrameAncestors {
    /// Pages of these origins, each as a browser writes it: `https://portal.example`. Without any,
    /// nobody's. What no header can carry is left out.
    #[must_use]
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        let is_plain =
            |origin: &String| origin.bytes().all(|b| b.is_ascii_graphic() && b != b';' && b != b',');
        Self(origins.into_iter().filter(is_plain).collect())
    }

    /// The `Content-Security-Policy`.
    pub(crate) fn policy(&self) -> HeaderValue {
        let ancestors = if self.0.is_empty() { "'none'".to_owned() } else { self.0.join(" ") };
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors {ancestors}"
        );
        HeaderValue::try_from(policy).expect("visible ASCII and spaces")
    }
}
