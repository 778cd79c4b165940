//! `docs/lmstfy.md`: its example runs as it stands there, and its calls are those that there are.

use std::path::Path;

use tokio::process::Command;
use tokio::time::timeout;

use crate::lmstfy::rig::{PATIENCE, Rig};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lmstfy.md");
    std::fs::read_to_string(path).expect("the page is there")
}

#[tokio::test]
async fn the_example_of_the_page_works_as_it_stands() {
    let rig = Rig::start_bare().await;
    let page = page();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends"));
    let script: String = blocks.collect();
    let (api, admin) = (rig.api.to_string(), rig.admin.to_string());
    let script = script.replace("127.0.0.1:7777", &api).replace("127.0.0.1:7778", &admin);
    let mut bash = Command::new("bash");
    bash.args(["-e", "-o", "pipefail", "-c", &script]).kill_on_drop(true);
    let output = timeout(PATIENCE, bash.output()).await.expect("it ends in time").expect("bash is there");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{wrong}");
    for part in ["\"msg\":\"published\"", "\"data\":\"aGVsbG8=\"", "\"remain_tries\":2", "\n204\n"] {
        assert!(told.contains(part), "{part} is not in what the page prints:\n{told}\n{wrong}");
    }
}

#[tokio::test]
async fn the_calls_that_the_page_lists_are_there() {
    let rig = Rig::start().await;
    let text = page();
    let (_, api) = text.split_once("## The API").expect("the section");
    let (api, _) = api.split_once("## Tokens").expect("the next one");
    let calls = api.lines().filter(|line| line.starts_with("| `")).flat_map(|line| {
        let cell = line.split('|').nth(1).expect("a cell");
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    let mut count = 0;
    for call in calls {
        let (method, path) = call.split_once(' ').unwrap_or((&call, ""));
        let path = path.split('?').next().unwrap_or_default().replace("{id}", "x");
        let answer = rig.ask(method, &format!("q{path}"), b"[1]").await;
        assert!(!answer.body.contains("api not found"), "{call}: {answer:?}");
        count += 1;
    }
    assert_eq!(count, 13, "every call has its row");
}
