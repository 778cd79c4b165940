//! The commands that ask a server. They are `client`, `device`, `report`, `command`, `rollout`,
//! `task`, `campaign`, `fleet`, `operation`, `delivery`, `queue`, `job`, `stream`, `copy`, `node`,
//! `lock`, `limit`, `cache`, `channel`, `notice` and `stats`.
//!
//! Each thing has a module with its flags and its calls, and in it one with how it is shown to
//! people. They know the server only by its API, like any other program; nothing here sees an
//! engine or a data directory. `job work` and `lock run` run for long, over the client crate.
//!
//! `relay refused ls` of the program asks no server, and prints its table by [`TextTable`] too.

mod advice;
mod api;
mod cache;
mod campaign;
mod channel;
mod client;
mod command;
mod copy;
mod delivery;
mod device;
mod failure;
mod feed;
mod fleet;
mod follow;
mod import;
mod input;
mod job;
mod limit;
mod list;
mod lock;
mod max_failed;
mod node;
mod notice;
mod operation;
mod payload_flags;
mod pick_counts;
mod pick_terms;
mod polling;
mod progress;
mod queue;
mod receiver;
mod report;
mod rollout;
mod screen;
mod server;
mod stats;
mod stream;
mod table;
mod task;
mod tls;
mod token;
mod when;

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use api::{ApiPath, ServerApi};
use failure::CommandFailure;
use screen::Screen;
pub use screen::{stdout_columns, stdout_of};
pub use server::{FileOrEmptyVariable, ServerFlags};
pub use table::{Cell, TextTable, plain};

/// The commands, by what they are about.
#[derive(Debug, Subcommand)]
pub enum RemoteCommand {
    /// The applications that are told.
    Client(CommandGroup<client::ClientAction>),
    /// What is watched: registry, state, readings, events.
    Device(CommandGroup<device::DeviceAction>),
    /// Send reports, and look at those that were rejected.
    Report(CommandGroup<report::ReportAction>),
    /// Tell devices to do something, and see what becomes of it.
    Command(CommandGroup<command::CommandAction>),
    /// Tell many devices to do something, little by little.
    Rollout(CommandGroup<rollout::RolloutAction>),
    /// Ask some devices of many something once, and see what they say.
    Task(CommandGroup<task::TaskAction>),
    /// Ask some devices of many again and again, fairly by turns.
    Campaign(CommandGroup<campaign::CampaignAction>),
    /// Count the fleet, and see how fairly its devices are picked.
    Fleet(CommandGroup<fleet::FleetAction>),
    /// Do one thing to everything that matches: respawn, retry, replay, cancel, label, delete.
    Operation(CommandGroup<operation::OperationCommand>),
    /// What clients were told, and how it went.
    Delivery(CommandGroup<delivery::DeliveryAction>),
    /// Queues of jobs: how they stand, what is set for them, jobs that failed for good.
    Queue(CommandGroup<queue::QueueAction>),
    /// Publish jobs, take them and work on them.
    Job(CommandGroup<job::JobAction>),
    /// Streams of messages: append, read and follow them, see how they stand.
    Stream(CommandGroup<stream::StreamAction>),
    /// Give messages of streams on to other servers, take them from there, and see how far that is.
    Copy(CommandGroup<copy::CopyAction>),
    /// The other servers that streams are copied to or from.
    Node(CommandGroup<node::NodeAction>),
    /// Hold locks that one program at a time has, and run a command under one.
    Lock(CommandGroup<lock::LockAction>),
    /// Ask how often something may be done in a span of time.
    Limit(CommandGroup<limit::LimitAction>),
    /// Put bytes into the server's memory, and get them.
    Cache(CommandGroup<cache::CacheAction>),
    /// Give messages to whoever listens now, and listen.
    Channel(CommandGroup<channel::ChannelAction>),
    /// What there is to be told of the server itself.
    Notice(CommandGroup<notice::NoticeCommand>),
    /// Count reports, changes, losses or deliveries over time.
    Stats(SingleCommand<stats::Stats>),
}

/// A thing with commands of its own.
#[derive(Args, Debug)]
pub struct CommandGroup<C: Subcommand> {
    #[command(subcommand)]
    command: C,
    #[command(flatten)]
    server: ServerFlags,
}

/// A command that stands for itself.
#[derive(Args, Debug)]
pub struct SingleCommand<A: Args> {
    #[command(flatten)]
    command: A,
    #[command(flatten)]
    server: ServerFlags,
}

/// What is wrong with a command line, as `--json` has it: one document of a failure.
#[must_use]
pub fn usage_as_json(told: &str) -> String {
    let told = told.strip_prefix("error: ").unwrap_or(told);
    let detail = told.split("\n\n").next().unwrap_or(told).trim_end();
    CommandFailure::Usage(detail.to_owned()).to_json()
}

/// Asks the server, shows what it says, and tells failures on stderr.
pub fn run(command: &RemoteCommand) -> ExitCode {
    let server = match command {
        RemoteCommand::Client(noun) => &noun.server,
        RemoteCommand::Device(noun) => &noun.server,
        RemoteCommand::Report(noun) => &noun.server,
        RemoteCommand::Command(noun) => &noun.server,
        RemoteCommand::Rollout(noun) => &noun.server,
        RemoteCommand::Task(noun) => &noun.server,
        RemoteCommand::Campaign(noun) => &noun.server,
        RemoteCommand::Fleet(noun) => &noun.server,
        RemoteCommand::Operation(noun) => &noun.server,
        RemoteCommand::Delivery(noun) => &noun.server,
        RemoteCommand::Queue(noun) => &noun.server,
        RemoteCommand::Job(noun) => &noun.server,
        RemoteCommand::Stream(noun) => &noun.server,
        RemoteCommand::Copy(noun) => &noun.server,
        RemoteCommand::Node(noun) => &noun.server,
        RemoteCommand::Lock(noun) => &noun.server,
        RemoteCommand::Limit(noun) => &noun.server,
        RemoteCommand::Cache(noun) => &noun.server,
        RemoteCommand::Channel(noun) => &noun.server,
        RemoteCommand::Notice(noun) => &noun.server,
        RemoteCommand::Stats(alone) => &alone.server,
    };
    let mut screen = Screen::of_process(server.json);
    let outcome = ServerApi::new(server).and_then(|api| carry_out(command, &api, &mut screen));
    match outcome.and_then(|()| screen.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => screen.fail(&failure),
    }
}

/// Writes what a path of the API below `/v1` answers to `out`, however long it is. A failure is
/// told here.
pub fn download(server: &ServerFlags, path: &[&str], out: &mut dyn Write) -> Result<(), ExitCode> {
    let downloaded = ServerApi::new(server).and_then(|api| api.download(&ApiPath::of(path), out));
    downloaded.map_err(|failure| Screen::of_process(server.json).fail(&failure))
}

fn carry_out(command: &RemoteCommand, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    match command {
        RemoteCommand::Client(noun) => noun.command.run(api, screen),
        RemoteCommand::Device(noun) => noun.command.run(api, screen),
        RemoteCommand::Report(noun) => noun.command.run(api, screen),
        RemoteCommand::Command(noun) => noun.command.run(api, screen),
        RemoteCommand::Rollout(noun) => noun.command.run(api, screen),
        RemoteCommand::Task(noun) => noun.command.run(api, screen),
        RemoteCommand::Campaign(noun) => noun.command.run(api, screen),
        RemoteCommand::Fleet(noun) => noun.command.run(api, screen),
        RemoteCommand::Operation(noun) => noun.command.run(api, screen),
        RemoteCommand::Delivery(noun) => noun.command.run(api, screen),
        RemoteCommand::Copy(noun) => noun.command.run(api, screen),
        RemoteCommand::Node(noun) => noun.command.run(api, screen),
        RemoteCommand::Lock(noun) => noun.command.run(&noun.server, api, screen),
        RemoteCommand::Limit(noun) => noun.command.run(api, screen),
        RemoteCommand::Cache(noun) => noun.command.run(api, screen),
        RemoteCommand::Channel(noun) => noun.command.run(api, screen),
        RemoteCommand::Notice(noun) => noun.command.run(api, screen),
        RemoteCommand::Queue(noun) => noun.command.run(api, screen),
        RemoteCommand::Job(noun) => noun.command.run(&noun.server, api, screen),
        RemoteCommand::Stream(noun) => noun.command.run(api, screen),
        RemoteCommand::Stats(alone) => alone.command.run(api, screen),
    }
}
