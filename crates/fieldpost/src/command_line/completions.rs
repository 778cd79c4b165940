//! `fieldpost completions SHELL` and `fieldpost man`: what a shell and `man` want to know of the
//! command line, made from its definition.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

const NAME: &str = "fieldpost";
/// What a page is part of.
const NAME_AND_VERSION: &str = concat!("fieldpost ", env!("CARGO_PKG_VERSION"));
/// What a wrong command line exits with.
const EXIT_USAGE: u8 = 2;

/// The argument of `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// The page of a command, such as `device ls`; that of the program if left out.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands as files into this directory, which is made if it is not
    /// there.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Writes the script that the shell reads.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn complete(flags: &Completions, out: &mut dyn Write) -> io::Result<ExitCode> {
    // Into memory first: what is written directly panics where nobody reads on.
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), NAME, &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one page in the form of `man`, or all of them as files.
///
/// # Errors
/// When `out` or a file cannot be written.
pub(crate) fn manual(flags: &Manual, out: &mut dyn Write) -> io::Result<ExitCode> {
    if let Some(dir) = &flags.dir {
        let written = fs::create_dir_all(dir).and_then(|()| write_pages(built(), dir));
        return written.map(|()| ExitCode::SUCCESS).or_else(|error| {
            writeln!(io::stderr(), "{} cannot be written: {error}", dir.display())?;
            Ok(ExitCode::FAILURE)
        });
    }
    match page_of(&flags.command) {
        Some(command) => page(command).render(out).map(|()| ExitCode::SUCCESS),
        None => {
            let command = flags.command.join(" ");
            writeln!(
                io::stderr(),
                "error: there is no command {command:?}; `fieldpost help` lists those that there are"
            )?;
            Ok(ExitCode::from(EXIT_USAGE))
        }
    }
}

fn page_of(words: &[String]) -> Option<Command> {
    let mut command = built();
    for word in words {
        command = command.find_subcommand(word)?.clone();
    }
    Some(command)
}

/// The command line whose commands know their full names.
fn built() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Writes the pages of a command and of those below it.
fn write_pages(command: Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), dir)?;
    }
    page(command).generate_to(dir).map(drop)
}

/// The page of a command. Of itself a command knows neither the program nor its version.
fn page(command: Command) -> Man {
    Man::new(command).source(NAME_AND_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual_of(command: &[&str]) -> String {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let mut out = Vec::new();
        manual(&Manual { command, dir: None }, &mut out).expect("a vector takes every write");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_manual_page_tells_the_commands_or_the_flags() {
        let program = manual_of(&[]);
        for part in [".TH fieldpost 1", "fieldpost\\-serve(1)", "fieldpost\\-device(1)"] {
            assert!(program.contains(part), "{part} is not in {program}");
        }
        let list = manual_of(&["device", "ls"]);
        for part in [".TH fieldpost\\-device\\-ls 1", "\\-\\-label", "\\-\\-cursor"] {
            assert!(
                list.contains(part) || list.contains(&part.replace("\\-", "-")),
                "{part} is not in {list}"
            );
        }
    }

    #[test]
    fn every_page_names_the_program_and_its_version() {
        let is_named = |page: &str| {
            let title = page.lines().find(|line| line.starts_with(".TH ")).expect("a title");
            title.contains(concat!("\"fieldpost ", env!("CARGO_PKG_VERSION"), "\""))
        };
        let commands: [&[&str]; 4] = [&[], &["device"], &["device", "ls"], &["relay", "refused", "drop"]];
        for command in commands {
            let page = manual_of(command);
            assert!(is_named(&page), "{page}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let flags = Manual { command: Vec::new(), dir: Some(folder.path().to_owned()) };
        manual(&flags, &mut io::sink()).expect("the pages are written");
        for name in ["fieldpost.1", "fieldpost-device-ls.1"] {
            let page = fs::read_to_string(folder.path().join(name)).expect("written");
            assert!(is_named(&page), "{page}");
        }
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let mut out = Vec::new();
            complete(&Completions { shell }, &mut out).expect("a vector takes every write");
            let script = String::from_utf8(out).expect("text");
            for word in ["check-config", "rejected", "--follow"] {
                assert!(script.contains(word) || script.contains("follow"), "{shell}: {word}");
            }
        }
    }
}
