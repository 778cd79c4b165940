//! `fieldpost fleet`: all devices together: how many there are, and how fairly they are picked.

mod view;

use clap::{Args, Subcommand};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::screen::Screen;
use view::{CountsView, FairnessView, WeightView};

/// What can be asked of the fleet.
#[derive(Debug, Subcommand)]
pub enum FleetAction {
    /// Count the devices of a selection: all, connected, online, lost, never seen.
    Count(CountFleet),
    /// List the weights of devices, in order of id: the heaviest are picked first.
    Weights(ListWeights),
    /// Show what the weights of all devices follow from.
    Fairness,
}

/// Which devices.
#[derive(Args, Debug)]
struct SelectionFlags {
    /// Only those that a selector means: 'site=12,kind!=lock'.
    #[arg(long)]
    selector: Option<String>,
    /// Only those of this place, by the server's setting [fleet] place: CN_520000.
    #[arg(long)]
    place: Option<String>,
}

#[derive(Args, Debug)]
pub struct CountFleet {
    #[command(flatten)]
    selection: SelectionFlags,
    /// A row for each value of this label too, or of kind, connection, connected, client or
    /// answering; the most first.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,
}

#[derive(Args, Debug)]
pub struct ListWeights {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

impl SelectionFlags {
    fn of(&self, path: ApiPath) -> ApiPath {
        path.with_maybe("selector", self.selector.as_ref()).with_maybe("place", self.place.as_ref())
    }
}

impl FleetAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Count(CountFleet { selection, by }) => {
                let path = selection.of(ApiPath::of(&["fleet", "count"])).with_maybe("by", by.as_ref());
                let counts = api.get(&path)?;
                let width = screen.width();
                screen.show(&counts, || Ok(api.read::<CountsView>(&counts)?.text(width)))
            }
            Self::Weights(ListWeights { selection, list_flags }) => {
                let path = selection.of(ApiPath::of(&["fleet", "weights"]));
                list::show::<WeightView>(api, screen, &path, list_flags, "no devices")
            }
            Self::Fairness => {
                let fairness = api.get(&ApiPath::of(&["fleet", "fairness"]))?;
                screen.show(&fairness, || Ok(api.read::<FairnessView>(&fairness)?.facts()))
            }
        }
    }
}
