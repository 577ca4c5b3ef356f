//! One file per command: its arguments, what it does, its printing.

mod completions;
mod config;
mod demo;
mod dlq;
mod doctor;
mod drain;
mod enqueue;
pub(super) mod graph;
mod hook;
pub(super) mod hooks;
mod init;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod mv;
mod put;
mod rebuild;
pub(super) mod search;
#[cfg(feature = "serve")]
mod serve;
mod status;
mod verify;
mod watch;

use std::str::FromStr;

use super::Context;
use super::error::CommandError;
use super::exit::Exit;

/// Reads a number that is not zero: of nothing at all nobody asks for.
fn at_least_one<N: FromStr + From<u8> + PartialEq>(text: &str) -> Result<N, String> {
    match text.parse::<N>() {
        Ok(number) if number == N::from(0) => Err("it must be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a number".into()),
    }
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(init::InitArgs),
    Put(put::PutArgs),
    Enqueue(enqueue::EnqueueArgs),
    Drain(drain::DrainArgs),
    Watch(watch::WatchArgs),
    Status(status::StatusArgs),
    Search(search::SearchArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    Verify(verify::VerifyArgs),
    Rebuild(rebuild::RebuildArgs),
    Mv(mv::MvArgs),
    /// Ask the graph who links to whom
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Look at dead letters, put them back or drop them
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Install git hooks that announce what a commit, merge, checkout or rebase changed
    #[command(subcommand)]
    Hooks(hooks::HooksCommand),
    Hook(hook::HookArgs),
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpArgs),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Command {
    pub(super) fn run(self, cx: &mut Context) -> Result<Exit, CommandError> {
        match self {
            Self::Init(args) => init::run(&args, cx),
            Self::Put(args) => put::run(&args, cx),
            Self::Enqueue(args) => enqueue::run(&args, cx),
            Self::Drain(args) => drain::run(&args, cx),
            Self::Watch(args) => watch::run(&args, cx),
            Self::Status(args) => status::run(&args, cx),
            Self::Search(args) => search::run(&args, cx),
            #[cfg(feature = "serve")]
            Self::Serve(args) => serve::run(&args, cx),
            Self::Verify(args) => verify::run(&args, cx),
            Self::Rebuild(args) => rebuild::run(&args, cx),
            Self::Mv(args) => mv::run(&args, cx),
            Self::Graph(command) => graph::run(&command, cx),
            Self::Dlq(command) => dlq::run(command, cx),
            Self::Hooks(command) => hooks::run(&command, cx),
            Self::Hook(args) => hook::run(&args, cx),
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => mcp::run(&args, cx),
            Self::Doctor(args) => doctor::run(&args, cx),
            Self::Demo(args) => demo::run(&args, cx),
            Self::Config(args) => config::run(&args, cx),
            Self::Completions(args) => Ok(completions::run(&args, cx)),
            Self::Man(args) => man::run(&args, cx),
        }
    }
}
