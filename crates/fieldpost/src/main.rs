//! The `fieldpost` program: reads the command line and does the one thing it names.

mod allocator_settings;
mod certificate;
mod check_config;
mod command_line;
mod config;
mod demo;
mod program_pages;
mod serve;
mod simulate;

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use command_line::{Cli, LogFormat, ProgramCommand, backup, check, completions, relay, restore, spool};
use config::ServerSettings;

/// A burst's memory goes back to the system when the burst is over. With the C library's allocator
/// it stays: after a million first reports 940 MiB in place of 340.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a start that was refused exits with, and what is wrong on the command line or in the
/// settings.
const EXIT_WRONG: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    match cli.command {
        ProgramCommand::Serve(flags) => {
            start_logging(cli.log_format);
            allocator_settings::re_exec_with(&allocator_settings::for_server());
            let settings = ServerSettings::load_shown(
                flags.config.as_deref(),
                std::env::vars_os(),
                flags.data_dir.as_deref(),
                certificate::faults,
            );
            match settings {
                Ok((settings, in_force)) => run(serve::run(settings, in_force, flags.ready_file)),
                Err(errors) => {
                    eprintln!("{errors}");
                    ExitCode::from(EXIT_WRONG)
                }
            }
        }
        ProgramCommand::Demo(flags) => run(demo::run(flags.keep)),
        ProgramCommand::Simulate(flags) => run(simulate::run(*flags)),
        ProgramCommand::CheckConfig(flags) => match check_config::run(&flags.file, &mut stdout()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(EXIT_WRONG),
            Err(error) => unwritable(&error),
        },
        ProgramCommand::Backup(flags) => to_stdout(cli.log_format, |out| backup::run(&flags, out)),
        ProgramCommand::Check(flags) => to_stdout(cli.log_format, |out| check::run(&flags, out)),
        ProgramCommand::Restore(flags) => to_stdout(cli.log_format, |out| restore::run(&flags, out)),
        ProgramCommand::Spool(flags) => {
            start_logging(cli.log_format);
            spool::run(*flags)
        }
        ProgramCommand::Relay(flags) => {
            start_logging(cli.log_format);
            relay::run(*flags)
        }
        ProgramCommand::Completions(flags) => print(|out| completions::complete(&flags, out)),
        ProgramCommand::Man(flags) => print(|out| completions::manual(&flags, out)),
        ProgramCommand::Remote(command) => cli::run(&command),
    }
}

/// Says what is wrong with the command line, or prints the help that it asks for.
fn refuse(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        eprintln!("{}", cli::usage_as_json(&error.render().to_string()));
        std::process::exit(EXIT_WRONG.into());
    }
    error.exit()
}

/// Runs what prints to standard output, with log lines beside it.
fn to_stdout(format: LogFormat, run: impl FnOnce(&mut dyn Write) -> io::Result<ExitCode>) -> ExitCode {
    start_logging(format);
    run(&mut stdout()).unwrap_or_else(|error| unwritable(&error))
}

/// Runs what prints a text of the program's own.
fn print(run: impl FnOnce(&mut dyn Write) -> io::Result<ExitCode>) -> ExitCode {
    run(&mut stdout()).unwrap_or_else(|error| {
        // Whoever read the output has had enough of it, as `head` does.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        unwritable(&error)
    })
}

fn unwritable(error: &io::Error) -> ExitCode {
    eprintln!("standard output cannot be written: {error}");
    ExitCode::FAILURE
}

/// Runs a future on a runtime with a worker for every core.
fn run(future: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => {
            eprintln!("no threads can be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Log lines go to stderr; `RUST_LOG` chooses which.
fn start_logging(format: LogFormat) {
    // The AMQP library calls everything an error that a broker says; what matters of it our own
    // lines tell.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,lapin=off"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match format {
        LogFormat::Text => lines.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().init(),
    }
}
