//! What answers look like: small structs that borrow records and know nothing but names and text forms.

mod client;
mod delivery;
mod device;
mod event;
mod reading;
mod text;

pub(crate) use client::{ClientShape, NewClientShape, change_of_client, new_client};
pub(crate) use delivery::{AttemptedShape, DeliveryShape};
pub(crate) use device::{DeviceShape, change_of_device, new_device};
pub(crate) use event::EventShape;
pub(crate) use reading::ReadingShape;
