//! `docs/tutorial-streams.md`: its blocks, run as they stand on other ports.

use std::path::Path;
use std::time::Duration;

use crate::pages::{blocks, run_for};
use crate::ports::free_ports;

const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn the_two_stories_work_as_they_stand() {
    let mut script = blocks("docs/tutorial-streams.md", "run");
    let ports: [u16; 5] = free_ports();
    for (named, used) in (8101..=8105).zip(ports) {
        let named: u16 = named;
        assert!(script.contains(&named.to_string()), "the page names the port {named}");
        script = script.replace(&named.to_string(), &used.to_string());
    }
    // Somebody who reads sees the backlog go; a test has no time to watch. Its machine may be busy.
    for (here, in_test) in [
        ("--rate 20000 ", "--rate 400000 "),
        ("sleep 11\n", ""),
        ("wait=5s", "wait=50s"),
        ("wanted=2)", "wanted=2, slow_after=60)"),
    ] {
        assert!(script.contains(here), "the page has {here:?}");
        script = script.replace(here, in_test);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = format!("unset FIELDPOST_HTTP__LISTEN FIELDPOST_URL\ncd '{}'\n{script}", sources.display());
    let output = run_for(PATIENCE, &script, [ports[0], ports[1], ports[2]]);
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{log}", output.status);
    for part in [
        "order 3 is on the nodes [0, 1]\n",
        "order 5 is on the nodes [0, 2]\n",
        "appended as 6\n",
        "a duplicate of 6, nothing appended\n",
        "\"enough\":true}",
        "host-1",
        "200\n",
        "1,000 appended, 0 duplicates, 0 rejected\n",
        "card: 1",
        "\"source\":\"analyzer-7.",
        "    501 \"source\":\"analyzer-7.",
        "      1 \"source\":\"analyzer-7.",
        "the centre read \"data\":1 \"data\":0 \"data\":1",
    ] {
        assert!(told.contains(part), "{part} is not in what the page prints:\n{told}\n{log}");
    }
    assert!(log.contains("subscription_busy") && log.contains("stream_full"), "{log}");
}
