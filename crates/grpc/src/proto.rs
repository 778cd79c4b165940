//! The types and services of `fieldpost.v1`, generated from `proto/fieldpost/v1`. What they mean is
//! told there.

#![allow(clippy::all, clippy::pedantic, clippy::unwrap_used, missing_docs, unreachable_pub)]

include!(concat!(env!("OUT_DIR"), "/fieldpost.v1.rs"));
include!(concat!(env!("OUT_DIR"), "/items.rs"));
