//! `docs/spool.md`: its blocks, run as they stand on other ports.

use crate::pages::{blocks, run};
use crate::ports::free_ports;

#[test]
fn the_page_works_as_it_stands() {
    let ports = free_ports();
    let mut script = blocks("docs/spool.md", "run");
    for (named, used) in [("127.0.0.1:8080", ports[0]), ("127.0.0.1:8090", ports[2])] {
        assert!(script.contains(named), "the page names {named}");
        script = script.replace(named, &format!("127.0.0.1:{used}"));
    }
    // A nearly full disk must not fail this test: the agent would refuse the order.
    script = script.replace("--ready-file spool.json", "--keep-free 0B --ready-file spool.json");
    assert!(script.contains("--keep-free 0B"), "the agent of the page begins with a ready file");
    let output = run(&script, ports);
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{log}", output.status);
    for part in [r#"{"spooled":1}"#, r#"{"waiting":1,"bytes":"#, r#""payload":{"order":1001}"#] {
        assert!(told.contains(part), "{part} is not in what the page prints:\n{told}\n{log}");
    }
}
