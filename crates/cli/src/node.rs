//! `fieldpost node`: other servers that streams are copied to or from.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::input;
use super::list::{self, ListFlags, TableRow};
use super::screen::Screen;
use super::table::{BAD, Cell, facts, plain};
use super::when::to_second;

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum NodeAction {
    /// Make a node, or have it reached in another way.
    Put(PutNode),
    /// List the nodes with whether they answer.
    #[command(visible_alias = "list")]
    Ls(NodeListing),
    /// Show a node.
    Show(NodeArgs),
    /// Delete a node; copies with it wait from then on.
    Delete(NodeArgs),
}

#[derive(Args, Debug)]
pub struct NodeListing {
    #[command(flatten)]
    list_flags: ListFlags,
}

/// A node.
#[derive(Args, Debug)]
pub struct NodeArgs {
    /// The node, by its name here.
    #[arg(value_name = "NODE")]
    name: String,
}

#[derive(Args, Debug)]
pub struct PutNode {
    #[command(flatten)]
    node: NodeArgs,
    /// The root of its API, such as http://192.0.2.7:8080.
    #[arg(value_name = "NODE-URL")]
    at: String,
    /// A file with the token that is shown to it, or - for stdin.
    #[arg(long, value_name = "FILE")]
    node_token_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct NodeBody<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

/// How a node stands.
#[derive(Deserialize)]
struct NodeView {
    name: String,
    url: String,
    reachable: bool,
    last_contact_at: Option<String>,
    error: Option<String>,
}

impl NodeArgs {
    fn path(&self) -> ApiPath {
        ApiPath::of(&["nodes", &self.name])
    }
}

impl NodeAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Put(put) => {
                let token = put.node_token_file.as_deref().map(input::whole).transpose()?;
                let body = NodeBody { url: &put.at, token: token.as_deref().map(str::trim) };
                let node = api.replace(&put.node.path(), &body)?;
                screen.show(&node, || Ok(api.read::<NodeView>(&node)?.facts()))
            }
            Self::Ls(NodeListing { list_flags }) => {
                list::show::<NodeView>(api, screen, &ApiPath::of(&["nodes"]), list_flags, "no nodes")
            }
            Self::Show(node) => {
                let node = api.get(&node.path())?;
                screen.show(&node, || Ok(api.read::<NodeView>(&node)?.facts()))
            }
            Self::Delete(node) => {
                api.delete(&node.path())?;
                screen.tell(&format!("{} deleted\n", plain(&node.name)))
            }
        }
    }
}

impl NodeView {
    fn facts(&self) -> String {
        facts(&[
            ("node", Cell::text(&self.name)),
            ("url", Cell::text(&self.url)),
            ("reachable", Cell::text(if self.reachable { "yes" } else { "no" })),
            ("last contact", Cell::maybe(self.last_contact_at.as_deref().map(to_second).as_deref())),
            ("error", Cell::maybe(self.error.as_deref())),
        ])
    }
}

impl TableRow for NodeView {
    const HEADINGS: &'static [&'static str] = &["NAME", "URL", "REACHABLE", "LAST CONTACT", "ERROR"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.name),
            Cell::text(&self.url),
            Cell::text(if self.reachable { "yes" } else { "no" }),
            Cell::maybe(self.last_contact_at.as_deref().map(to_second).as_deref()),
            Cell::maybe(self.error.as_deref()).styled(BAD),
        ]
    }
}
