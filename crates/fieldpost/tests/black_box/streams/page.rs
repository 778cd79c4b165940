//! `docs/streams.md`: its blocks, run as they stand on other ports.

use crate::pages::{blocks, run};
use crate::ports::free_ports;

#[test]
fn the_order_intake_of_the_shop_works_as_it_stands() {
    let ports = free_ports();
    let script = blocks("docs/streams.md", "run");
    assert!(script.contains("127.0.0.1:8080"), "the page names the port");
    let output = run(&script.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", ports[0])), ports);
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{log}", output.status);
    for part in [
        r#"{"messages":[{"id":"1","duplicate":false}]}{"messages":[{"id":"1","duplicate":true}]}"#,
        "500 appended, 0 duplicates, 0 rejected\n",
        r#""next_after":"2","skipped":0}"#,
        r#"north    {"order":1001,"total":"19.90"}"#,
        "appended as 502\n",
        r#""payload":{"order":1002}}],"next_after":"502""#,
        "a duplicate of 502, nothing appended\n",
        r#"{"messages":[{"id":"502","duplicate":true,"conflict":true}]}"#,
        "periodic",
    ] {
        assert!(told.contains(part), "{part} is not in what the page prints:\n{told}\n{log}");
    }
}
