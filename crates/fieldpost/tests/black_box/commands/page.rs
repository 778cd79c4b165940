//! `docs/commands.md`: its blocks, run as they stand on other ports.

use crate::pages::{blocks, run};
use crate::ports::free_ports;

#[test]
fn the_page_about_commands_works_as_it_stands() {
    let ports = free_ports();
    let mut script = blocks("docs/commands.md", "run");
    for (named, used) in
        [("127.0.0.1:8080", format!("127.0.0.1:{}", ports[0])), ("-p 1883", format!("-p {}", ports[1]))]
    {
        assert!(script.contains(named), "the page names {named}");
        script = script.replace(named, &used);
    }
    let output = run(&script, ports);
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{log}", output.status);
    for part in [
        "\"status\":\"scheduled\"",
        "\"payload\":{\"open\":true}",
        "\"result\":{\"door\":\"open\"}",
        "\"result\":87",
        "\"type\":\"command.acknowledged\"",
        "\"type\":\"connected\"",
    ] {
        assert!(told.contains(part), "{part} is not in what the page prints:\n{told}\n{log}");
    }
}
