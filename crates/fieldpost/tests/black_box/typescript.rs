//! The TypeScript client `clients/typescript`: its tests against the built program.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use simulator::server::Site;
use tokio::process::Command;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Types are made and compiled before anything runs, which takes most of it.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn the_tests_of_the_package_pass() {
    assert!(Path::new(ROOT).join("node_modules").exists(), "node_modules is not there: run `make console`");
    let site = Site::new(Path::new(BINARY), &[]).expect("a directory");
    let _server = site.start(PATIENCE).await.expect("a server");
    let mut tests = Command::new("npm");
    tests
        .args(["test", "--silent", "--workspace", "@fieldpost/client"])
        .current_dir(ROOT)
        .env("FIELDPOST_URL", format!("http://{}", site.http.address().await))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output =
        timeout(PATIENCE, tests.output()).await.expect("in time").expect("scripts/setup installs npm");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().find_map(|line| line.strip_prefix("# pass ")?.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= 12), "all are found: {said}");
}
