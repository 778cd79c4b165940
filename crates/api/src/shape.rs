//! What answers look like: small structs that borrow records and know nothing but names and text forms.

mod client;
mod delivery;
mod device;
mod event;
mod import;
mod quarantined;
mod reading;
mod stats;
mod text;

pub(crate) use client::{
    ClientShape, NewClientShape, SecretShape, change_of_client, client_changes_schema, new_client,
    new_client_schema,
};
pub(crate) use delivery::{AttemptShape, AttemptedShape, DeliveryShape};
pub(crate) use device::{
    DeviceShape, change_of_device, device_changes_schema, import_device, import_device_schema, new_device,
    new_device_schema,
};
pub(crate) use event::EventShape;
pub(crate) use import::ImportedShape;
pub(crate) use quarantined::QuarantinedShape;
pub(crate) use reading::ReadingShape;
pub(crate) use stats::StatsShape;
