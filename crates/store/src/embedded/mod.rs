//! The embedded store.
mod key_range;
mod locks;
mod pages;
mod tables;
