//! `fieldpost delivery`: what clients were told, and how it went.

mod view;

use clap::{Args, Subcommand, ValueEnum};

use super::api::{ApiPath, ServerApi};
use super::device::Label;
use super::failure::CommandFailure;
use super::feed::FeedFlags;
use super::list::ListFlags;
use super::screen::Screen;
use view::{DeliveryView, WithAttempts};

/// What can be done with deliveries.
#[derive(Debug, Subcommand)]
pub enum DeliveryAction {
    /// List deliveries, the newest first.
    Ls(ListDeliveries),
    /// Show a delivery with its attempts.
    Show(OneDelivery),
    /// Send deliveries again now; of each client and device only the newest can be.
    Retry(SeveralDeliveries),
}

#[derive(Args, Debug)]
pub struct OneDelivery {
    /// The delivery, which is its webhook-id.
    #[arg(value_name = "DELIVERY")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralDeliveries {
    /// The deliveries, which are their webhook-ids.
    #[arg(value_name = "DELIVERY", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ListDeliveries {
    /// Only to this client.
    #[arg(long)]
    client: Option<String>,
    /// Only about this device.
    #[arg(long)]
    device: Option<String>,
    /// Only about devices with this label; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Only those of this status.
    #[arg(long, value_enum)]
    status: Option<Status>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// How a delivery stands.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Status {
    /// To be sent, now or again.
    Pending,
    /// The client took it.
    Delivered,
    /// Given up.
    Failed,
    /// A newer one took its place.
    Superseded,
    /// The client is no longer linked, or gone.
    Cancelled,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }
}

impl DeliveryAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Ls(ls) => ls.run(api, screen),
            Self::Show(OneDelivery { id }) => {
                let delivery = api.get(&ApiPath::of(&["deliveries", id]))?;
                let width = screen.width();
                screen.show(&delivery, || Ok(api.read::<WithAttempts>(&delivery)?.to_text(width)))
            }
            Self::Retry(SeveralDeliveries { ids }) => {
                screen.each(ids, "is sent again", |id| api.start(&ApiPath::of(&["deliveries", id, "retry"])))
            }
        }
    }
}

impl ListDeliveries {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = ApiPath::of(&["deliveries"])
            .with_maybe("client", self.client.as_ref())
            .with_maybe("device", self.device.as_ref())
            .with_maybe("status", self.status.map(Status::as_str));
        let path = self.label.iter().fold(path, |path, label| label.narrow(path));
        self.feed.show::<DeliveryView>(api, screen, path, &self.list_flags, "no deliveries")
    }
}
