//! The files themselves, in three forms each: as they are, and what Vite has compressed ahead.

#[cfg(feature = "embedded")]
use std::borrow::Cow;

use axum::body::Bytes;

use crate::accept::AssetEncoding;

/// A file in one of its forms.
#[derive(Debug)]
pub(crate) struct Asset {
    pub(crate) bytes: Bytes,
    pub(crate) sha256: [u8; 32],
}

#[cfg(feature = "embedded")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../../console/dist"]
struct Embedded;

/// What was embedded.
pub(crate) struct Assets;

impl Assets {
    /// The file of that name in that form, if there is one.
    #[cfg(feature = "embedded")]
    pub(crate) fn find(name: &str, encoding: AssetEncoding) -> Option<Asset> {
        let file = Embedded::get(&format!("{name}{}", encoding.ending()))?;
        let bytes = match file.data {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        Some(Asset { bytes, sha256: file.metadata.sha256_hash() })
    }

    /// Nothing was embedded.
    #[cfg(not(feature = "embedded"))]
    pub(crate) fn find(_: &str, _: AssetEncoding) -> Option<Asset> {
        None
    }
}
