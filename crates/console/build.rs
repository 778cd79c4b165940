//! Says what is missing when the console is to be embedded and was not built.

use std::path::Path;

/// What Vite builds, from this crate's folder.
const BUILT: &str = "../../console/dist";

fn main() {
    println!("cargo::rerun-if-changed={BUILT}");
    if std::env::var_os("CARGO_FEATURE_EMBEDDED").is_none() {
        return;
    }
    if !Path::new(BUILT).join("index.html").exists() {
        println!(
            "cargo::error=console/dist is missing, so there is no console to embed. Build it with \
             `make console`, which needs Node 20.19 or newer and npm, or leave it out with \
             `cargo build --package fieldpost --no-default-features`."
        );
    }
}
