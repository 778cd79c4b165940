//! `fieldpost channel`: messages to whoever listens now.

use clap::{Args, Subcommand};
use fieldpost_client::{ChannelUpdate, SharedChannels};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::input::json;
use super::screen::Screen;
use super::table::{grouped, plain};

/// What can be done with channels.
#[derive(Debug, Subcommand)]
pub enum ChannelAction {
    /// Give a message to whoever listens.
    Publish(PublishToChannel),
    /// Show messages as they come, a line each, until it is interrupted.
    Listen(ListenToChannels),
}

#[derive(Args, Debug)]
pub struct PublishToChannel {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The channel.
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// The message, as JSON.
    #[arg(value_name = "JSON", allow_hyphen_values = true, value_parser = json)]
    message: Box<RawValue>,
}

#[derive(Args, Debug)]
pub struct ListenToChannels {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// Channels, or how they begin with a * behind it.
    #[arg(value_name = "CHANNEL", required = true)]
    channels: Vec<String>,
    /// End after so many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

#[derive(Deserialize)]
struct ReceiverCount {
    receivers: u64,
}

#[derive(Serialize)]
struct HeardMessage<'a> {
    channel: &'a str,
    message: &'a RawValue,
}

impl ChannelAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Publish(PublishToChannel { namespace, channel, message }) => {
                let answer = api.post(&ApiPath::of(&["channels", namespace, channel]), message)?;
                screen.show(&answer, || {
                    let ReceiverCount { receivers } = api.read(&answer)?;
                    Ok(format!("{} received it\n", grouped(receivers)))
                })
            }
            Self::Listen(listen) => listen.run(api, screen),
        }
    }
}

impl ListenToChannels {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let channels: SharedChannels = api.client().channels(self.namespace.as_str());
        let mut subscription = channels.listen(&self.channels);
        let (mut heard, mut has_listened) = (0, false);
        while self.count.is_none_or(|count| heard < count) {
            match api.wait_for(subscription.next())? {
                ChannelUpdate::Message { channel, message } => {
                    let line = HeardMessage { channel: &channel, message: &message };
                    let line = match screen.is_for_programs() {
                        true => serde_json::to_string(&line).unwrap_or_default(),
                        false => format!("{}  {}", plain(&channel), plain(message.get())),
                    };
                    screen.write_line(&line)?;
                    screen.flush()?;
                    heard += 1;
                }
                ChannelUpdate::Away { error } => {
                    screen.note(&format!("{}; waiting for it", plain(&error.explained())));
                }
                _ if has_listened => screen.note("connected again: messages may have been missed"),
                _ => {
                    screen.note("listening");
                    has_listened = true;
                }
            }
        }
        Ok(())
    }
}
