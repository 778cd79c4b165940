//! The embedded store.
mod locks;
mod pages;
