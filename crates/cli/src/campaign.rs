//! `fieldpost campaign`: some devices of many are asked again and again, fairly by turns.

mod coverage;
mod define;
mod set;
mod slot_flags;
mod view;
mod watch;

use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::feed::{FeedFlags, SpanFlags};
use super::list::{self, ListFlags};
use super::screen::Screen;
use view::{CampaignView, SlotResultView, SlotView};

/// What can be done with campaigns.
#[derive(Debug, Subcommand)]
pub enum CampaignAction {
    /// Ask devices from now on. The campaign is durable when this returns, and goes on by itself.
    Create(Box<define::CreateCampaign>),
    /// Create a campaign under your own id, or replace it: the change is effective with its next
    /// slot.
    Put(Box<define::PutCampaign>),
    /// Change a campaign in what is named: the change is effective with its next slot.
    Set(Box<set::SetCampaign>),
    /// List campaigns, in order of id.
    Ls(ListCampaigns),
    /// Show a campaign.
    Show(OneCampaign),
    /// Begin no more slots until it is resumed.
    Pause(SeveralCampaigns),
    /// Go on with campaigns that were paused.
    Resume(SeveralCampaigns),
    /// Remove campaigns with their slots and results.
    Rm(SeveralCampaigns),
    /// List the slots of a campaign, the newest first: how many devices were wanted, and what came
    /// of them.
    Slots(ListSlots),
    /// List what came of each device, the newest first.
    Results(ListSlotResults),
    /// Show how evenly a campaign has picked the devices that it may pick.
    Coverage(coverage::CoverageFlags),
    /// Show each slot whenever anything about it is new, until Ctrl-C.
    Watch(watch::WatchCampaign),
}

#[derive(Args, Debug)]
pub struct OneCampaign {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralCampaigns {
    /// The campaigns.
    #[arg(value_name = "CAMPAIGN", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ListCampaigns {
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct ListSlots {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    #[command(flatten)]
    span: SpanFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct ListSlotResults {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    /// Only of this device.
    #[arg(long)]
    device: Option<String>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

impl CampaignAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Create(create) => create.run(api, screen),
            Self::Put(put) => put.run(api, screen),
            Self::Set(set) => set.run(api, screen),
            Self::Ls(ListCampaigns { list_flags }) => {
                let path = ApiPath::of(&["campaigns"]);
                list::show::<CampaignView>(api, screen, &path, list_flags, "no campaigns")
            }
            Self::Show(OneCampaign { id }) => {
                let campaign = api.get(&of(id))?;
                screen.show(&campaign, || Ok(api.read::<CampaignView>(&campaign)?.facts()))
            }
            Self::Pause(SeveralCampaigns { ids }) => tell(ids, "pause", "is paused", api, screen),
            Self::Resume(SeveralCampaigns { ids }) => tell(ids, "resume", "goes on", api, screen),
            Self::Rm(SeveralCampaigns { ids }) => screen.each(ids, "removed", |id| api.delete(&of(id))),
            Self::Slots(ListSlots { id, span, list_flags }) => {
                let path = span.of(of(id).and(&["slots"]));
                list::show::<SlotView>(api, screen, &path, list_flags, "no slots")
            }
            Self::Results(ListSlotResults { id, device, feed, list_flags }) => {
                let path = of(id).and(&["results"]).with_maybe("device", device.as_ref());
                feed.show::<SlotResultView>(api, screen, path, list_flags, "no results")
            }
            Self::Coverage(coverage) => coverage.run(api, screen),
            Self::Watch(watch) => watch.run(api, screen),
        }
    }
}

fn tell(
    ids: &[String],
    what: &str,
    done: &str,
    api: &ServerApi,
    screen: &mut Screen,
) -> Result<(), CommandFailure> {
    screen.each(ids, done, |id| api.start(&of(id).and(&[what])))
}

/// A campaign that was made or changed just now, with the secret that only this answer has.
fn show(made: &RawValue, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let campaign: CampaignView = api.read(made)?;
    screen.show(made, || Ok(campaign.facts() + &campaign.secret_once()))
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["campaigns", id])
}
