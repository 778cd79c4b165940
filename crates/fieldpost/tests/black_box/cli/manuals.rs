//! Completions and manual pages, as a shell and a packager use them.

use std::process::{Command, Output};

use crate::cli::rig::program;

fn printed(arguments: &[&str]) -> String {
    let output = program("http://127.0.0.1:9").args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Gives a script to bash, in a file: it is longer than an argument may be.
fn bash(script: &str) -> Output {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), script).expect("written");
    Command::new("bash").arg(file.path()).output().expect("bash is there")
}

#[test]
fn bash_completes_commands_and_flags() {
    let script = printed(&["completions", "bash"]);
    for (words, expect) in [
        ("fieldpost che", "check check-config"),
        ("fieldpost device ev", "events"),
        ("fieldpost device events --fol", "--follow"),
        ("fieldpost completions b", "bash"),
    ] {
        let count = words.split(' ').count() - 1;
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={count}\n\
             _fieldpost fieldpost \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\" | sort | xargs"
        );
        let output = bash(&ask);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expect, "{words}: {output:?}");
    }
}

#[test]
fn every_shell_gets_a_script_and_another_word_is_refused() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(printed(&["completions", shell]).contains("check-config"), "{shell}");
    }
    let output = program("").args(["completions", "cmd"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bash"), "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH fieldpost 1") && page.contains("check\\-config"), "{page}");
    let page = printed(&["man", "device", "events"]);
    assert!(page.contains("\\-\\-follow"), "{page}");
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("man1");
    let dir_text = dir.to_str().expect("text");
    assert_eq!(printed(&["man", "--dir", dir_text]), "");
    for name in ["fieldpost.1", "fieldpost-serve.1", "fieldpost-device-events.1", "fieldpost-job-work.1"] {
        assert!(dir.join(name).is_file(), "{name}");
    }
    let output = program("").args(["man", "device", "nothing"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let wrong = program("").args(["man", "--dir", "/dev/null/x"]).output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
}

/// The program's own settings are no part of a page: it is the same on every machine.
#[test]
fn no_page_shows_what_is_in_the_environment() {
    let mut command = program("http://secret.example:1");
    let output = command.args(["man", "device", "ls"]).env("FIELDPOST_TOKEN", "tok-3f9a").output();
    let page = String::from_utf8(output.expect("it runs").stdout).expect("text");
    assert!(!page.contains("secret.example") && !page.contains("tok-3f9a"), "{page}");
    assert!(page.contains("FIELDPOST"), "{page}");
}
