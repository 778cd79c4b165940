//! The rules of the registry: what may be registered, changed and linked, and which values a device
//! may report. They also say which devices a selection means, one by one or by an index.
//!
//! Pure functions from what a caller asks for to records, or to a refusal that says what would be
//! right. Looking things up, keeping them and reading wire forms happens elsewhere.

mod client;
mod device;
mod id;
mod import;
pub mod index;
mod interval;
mod label;
mod link;
mod pace;
mod patch;
mod refusal;
pub mod selection;
mod text;
mod url;
mod value;

pub use client::{ClientPatch, Made, NewClient, SECRET_BYTES_MAX, SECRET_BYTES_MIN, checked_secret};
pub use device::{CheckedDevice, DevicePatch, NewDevice, Registration};
pub use id::{client_id, device_id, kind};
pub use import::{CheckedImport, ImportDevice};
pub use interval::report_interval_ms;
pub use label::LabelChange;
pub use link::{Linked, link, sweep, unlink};
pub use pace::PaceChange;
pub use patch::Patch;
pub use refusal::RegistryRefusal;
pub use selection::{Selectable, Selection};
pub use url::{check_url, check_url_of_portal};
pub use value::check_value;

/// The settings that the registry's rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryRules {
    /// The ids that devices may be registered with: `devices.id_max_len`, `devices.id_chars`.
    pub device_ids: base::DeviceIdForm,
    /// Whether a client's URL may name a private address: `notify.allow_private`.
    pub allow_private: bool,
}
