//! What docs/backup.md begins with, carried out as it stands but for its paths.

use std::path::Path;

use simulator::server::Site;

use super::program::{run, site, word};
use super::story::PATIENCE;

/// The first block of commands, without comments.
fn commands() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backup.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let block = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    block.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned()).collect()
}

async fn carry_out(command: &str, site: &Site, root: &Path) {
    let command = command
        .replace("/backups", word(root))
        .replace("/var/lib/fieldpost", &format!("{}/data", word(root)));
    let mut words: Vec<_> = command.split_whitespace().skip(1).collect();
    let url = format!("http://{}", site.http.address().await);
    if words[0] == "backup" {
        words.extend(["--url", &url]);
    }
    let ended = run(&words);
    assert_eq!(ended.code, Some(0), "{command}: {ended:?}");
}

#[tokio::test]
async fn the_commands_of_the_page_work_as_they_stand() {
    let commands = commands();
    let named = commands.iter().map(|command| command.split_whitespace().nth(1));
    assert!(named.eq(["backup", "check", "restore"].map(Some)), "{commands:?}");
    let (site, root) = (site(), tempfile::tempdir().expect("a directory"));
    let server = site.start(PATIENCE).await.expect("ready");
    for command in &commands {
        carry_out(command, &site, root.path()).await;
    }
    server.kill().await.expect("killed");
}
