//! The console in a browser: Debian's chromium without its own windows, driven by the specs in
//! `console/tests`. Each test has a server of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Fewer means that specs were not found.
const TESTS_MIN: u32 = 112;
/// All specs, two at a time, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(900);

#[tokio::test]
async fn every_page_works_in_a_browser() {
    assert!(Path::new(ROOT).join("node_modules").exists(), "node_modules is not there: run `make console`");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut specs = Command::new("node");
    specs
        .args(["--test", "--test-reporter=tap", "console/tests/run.mjs"])
        .current_dir(ROOT)
        .env("FIELDPOST_BINARY", BINARY)
        .env("FIELDPOST_FOLDER", folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output =
        timeout(PATIENCE, specs.output()).await.expect("in time").expect("scripts/setup installs node");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().find_map(|line| line.strip_prefix("# pass ")?.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= TESTS_MIN), "all are found: {said}");
}
