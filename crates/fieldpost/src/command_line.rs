//! The command line: which commands and flags there are, and what `--help` says of them.
//!
//! It does nothing itself. A module below runs each command that needs no server; the crate `cli`
//! has the commands that ask one over its API.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod completions;
mod files;
pub(crate) mod relay;
pub(crate) mod restore;
pub(crate) mod spool;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cli::RemoteCommand;

/// Watches field devices and tells their owners' applications.
#[derive(Debug, Parser)]
#[command(name = "fieldpost", version, arg_required_else_help = true, infer_subcommands = false)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: ProgramCommand,
    /// How log lines look; they go to stderr.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum ProgramCommand {
    /// Run the server until SIGTERM or SIGINT, then drain and exit.
    Serve(Serve),
    /// Watch the main job for half a minute on this machine: locks, receivers, a SIGKILL in the
    /// middle. On a terminal the locks then go on, to be seen in the console, until Ctrl-C.
    Demo(Demo),
    /// Let a fleet of simulated devices report to any server, with progress and a latency summary.
    Simulate(Box<crate::simulate::Flags>),
    /// Say what is wrong with a config file, with line and key; exit 2 if anything is.
    CheckConfig(CheckConfig),
    /// Copy everything that is durable, from a running server or a stopped one's data directory.
    Backup(backup::BackupFlags),
    /// Look at every checksum and reference of a data directory or a backup, and change nothing.
    Check(check::Check),
    /// Make a data directory of a backup.
    Restore(restore::Restore),
    /// Take reports, jobs and messages onto this machine's disk, and forward them when the server
    /// can be reached, until SIGTERM or SIGINT.
    Spool(Box<spool::SpoolFlags>),
    /// Move rows of an outbox table in PostgreSQL to queues and streams: the SQL that makes it, the
    /// relay itself, and what it was refused.
    Relay(Box<relay::RelayFlags>),
    /// Print the completions of the command line for a shell, for instance into
    /// ~/.local/share/bash-completion/completions/fieldpost.
    Completions(completions::Completions),
    /// Print the manual page of the program or of a command: fieldpost man device ls | man -l -
    Man(completions::Manual),
    /// What asks a server over its API.
    #[command(flatten)]
    Remote(Box<RemoteCommand>),
}

/// The flags of `serve`.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// A TOML file with what differs from the defaults.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where everything is kept, over the config file and FIELDPOST_DATA_DIR.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Written once every listener accepts: the bound addresses as one JSON object.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// The flag of `demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Keep the server and its locks going after the account, also where there is no terminal.
    #[arg(long)]
    pub keep: bool,
}

/// The argument of `check-config`.
#[derive(Args, Debug)]
pub(crate) struct CheckConfig {
    /// The file to check.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    use clap::{Command, CommandFactory};

    use super::*;
    use crate::config::ServerSettings;

    fn parse(line: &str) -> Result<Cli, clap::error::ErrorKind> {
        Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
        for named in [
            "serve",
            "demo",
            "check-config",
            "completions",
            "man",
            "backup",
            "check",
            "restore",
            "spool",
            "relay",
            "client",
            "device",
            "report",
            "task",
            "campaign",
            "fleet",
            "delivery",
            "queue",
            "job",
            "stats",
        ] {
            assert!(Cli::command().find_subcommand(named).is_some(), "{named}");
        }
    }

    #[test]
    fn serve_takes_its_three_files_and_the_log_format() {
        let cli = parse("fieldpost serve --config a.toml --data-dir d --ready-file r --log-format json");
        let cli = cli.expect("a right line");
        assert_eq!(cli.log_format, LogFormat::Json);
        let ProgramCommand::Serve(serve) = cli.command else { panic!("serve, not {:?}", cli.command) };
        assert_eq!(serve.config, Some("a.toml".into()));
        assert_eq!(serve.data_dir, Some("d".into()));
        assert_eq!(serve.ready_file, Some("r".into()));
    }

    #[test]
    fn serve_needs_no_flag_at_all() {
        let cli = parse("fieldpost serve").expect("a right line");
        assert!(matches!(
            cli.command,
            ProgramCommand::Serve(Serve { config: None, data_dir: None, ready_file: None })
        ));
        assert_eq!(cli.log_format, LogFormat::Text);
    }

    #[test]
    fn check_config_needs_its_file() {
        assert_eq!(
            parse("fieldpost check-config").map(|_| ()),
            Err(clap::error::ErrorKind::MissingRequiredArgument)
        );
        assert!(parse("fieldpost check-config f.toml").is_ok());
    }

    /// The variables that a command and those below it read in place of flags.
    fn variables_of(command: &Command) -> BTreeSet<OsString> {
        let own = command.get_arguments().filter_map(|arg| arg.get_env().map(OsString::from));
        own.chain(command.get_subcommands().flat_map(variables_of)).collect()
    }

    #[test]
    fn no_variable_of_the_command_line_is_taken_for_a_setting_of_the_server() {
        let variables = variables_of(&Cli::command());
        assert!(variables.contains(&OsString::from("FIELDPOST_RELAY_DATABASE")), "{variables:?}");
        let load = |variables: Vec<(OsString, OsString)>| {
            ServerSettings::load(None, variables, None, |_| Vec::new()).map_err(|e| e.to_string())
        };
        let settings = load(Vec::new());
        for variable in variables {
            assert_eq!(load(vec![(variable.clone(), "x".into())]), settings, "{variable:?}");
        }
    }
}
