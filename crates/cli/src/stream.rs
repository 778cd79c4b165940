//! `fieldpost stream`: messages are appended, read and followed, and streams are looked after.

mod append;
mod read;
mod set;
mod subscription;
mod view;

use clap::{Args, Subcommand};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::screen::Screen;
use super::table::plain;
use view::{BlockView, HandlersView, StreamView};

/// What can be done with streams.
#[derive(Debug, Subcommand)]
pub enum StreamAction {
    /// Append a message, or one for each line of a file.
    Append(Box<append::Append>),
    /// Read messages, the oldest first.
    Read(read::ReadMessages),
    /// List the subscriptions of a stream with how far each is behind.
    Subscriptions(subscription::SubscriptionListing),
    /// Make or change a subscription: a reader whose place the server keeps, or a URL to post to.
    Subscribe(subscription::Subscribe),
    /// Say how far the reader of a subscription has come.
    Commit(subscription::CommitPosition),
    /// Delete a subscription.
    Unsubscribe(subscription::SubscriptionArgs),
    /// List streams with how much is in them.
    #[command(visible_alias = "list")]
    Ls(StreamListing),
    /// Show how a stream stands and what is set for it.
    Show(StreamArgs),
    /// Change what is set for a stream: save mode, blocks, how long messages are kept.
    Set(set::SetStream),
    /// Delete a stream with all its messages and what is set for it.
    Delete(StreamArgs),
    /// List the blocks of a stream, the oldest first.
    Blocks(BlockListing),
    /// Show what the server does with the blocks of a stream by itself.
    Handlers(StreamArgs),
}

/// A stream.
#[derive(Args, Debug)]
pub struct StreamArgs {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,
}

#[derive(Args, Debug)]
pub struct StreamListing {
    /// Only those of this namespace.
    #[arg(long)]
    namespace: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct BlockListing {
    #[command(flatten)]
    place: StreamArgs,
    #[command(flatten)]
    list_flags: ListFlags,
}

impl StreamArgs {
    fn below(&self, parts: &[&str]) -> ApiPath {
        ApiPath::of(&[&["streams", &self.namespace, &self.stream], parts].concat())
    }

    fn name(&self) -> String {
        format!("{}/{}", plain(&self.namespace), plain(&self.stream))
    }
}

impl StreamAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Append(append) => append.run(api, screen),
            Self::Read(read) => read.run(api, screen),
            Self::Subscriptions(subscriptions) => subscriptions.run(api, screen),
            Self::Subscribe(subscribe) => subscribe.run(api, screen),
            Self::Commit(commit) => commit.run(api, screen),
            Self::Unsubscribe(subscription) => subscription.delete(api, screen),
            Self::Ls(StreamListing { namespace, list_flags }) => {
                let path = ApiPath::of(&["streams"]).with_maybe("namespace", namespace.as_ref());
                list::show::<StreamView>(api, screen, &path, list_flags, "no streams")
            }
            Self::Show(place) => {
                let stream = api.get(&place.below(&[]))?;
                screen.show(&stream, || Ok(api.read::<StreamView>(&stream)?.facts()))
            }
            Self::Set(set) => set.run(api, screen),
            Self::Delete(place) => {
                api.delete(&place.below(&[]))?;
                screen.tell(&format!("{} deleted\n", place.name()))
            }
            Self::Blocks(BlockListing { place, list_flags }) => {
                list::show::<BlockView>(api, screen, &place.below(&["blocks"]), list_flags, "no blocks")
            }
            Self::Handlers(place) => {
                let handlers = api.get(&place.below(&["handlers"]))?;
                let width = screen.width();
                screen.show(&handlers, || Ok(api.read::<HandlersView>(&handlers)?.to_text(width)))
            }
        }
    }
}
