//! `fieldpost client portal`: short-lived links to one client.

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::{ApiPath, below};
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;
use crate::table::{Cell, TextTable, facts, plain};
use crate::when::to_second;

#[derive(Args, Debug)]
pub struct OpenPortal {
    /// The client.
    #[arg(value_name = "CLIENT")]
    id: String,
    /// How long it is open: 1m to 24h.
    #[arg(long, default_value = "1h")]
    ttl: String,
    /// What its holder may do; several with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read")]
    may: Vec<PortalRightFlag>,
}

#[derive(Args, Debug)]
pub struct ClosePortalArgs {
    /// The client.
    #[arg(value_name = "CLIENT")]
    id: String,
    /// The portals.
    #[arg(value_name = "PORTAL", required = true)]
    portals: Vec<String>,
}

/// What the holder of a portal may do.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PortalRightFlag {
    /// See the client, its links, its deliveries and their attempts.
    Read,
    /// Have deliveries sent again, and tests.
    Retry,
    /// Change the URL, and rotate the secret.
    Url,
}

impl PortalRightFlag {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Retry => "retry",
            Self::Url => "url",
        }
    }
}

/// A portal. Its token is there only in the answer to its opening.
#[derive(Deserialize)]
struct PortalView {
    id: String,
    may: Vec<String>,
    expires_at: String,
    by: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize)]
struct PortalsView {
    items: Vec<PortalView>,
}

impl OpenPortal {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let may: Vec<_> = self.may.iter().map(|right| right.as_str()).collect();
        let body = serde_json::json!({ "ttl": self.ttl, "may": may });
        let portal = api.post(&below(&self.id, "portal"), &body)?;
        screen.show(&portal, || Ok(api.read::<PortalView>(&portal)?.facts()))
    }
}

impl ClosePortalArgs {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        self.portals.iter().try_for_each(|portal| {
            api.delete(&ApiPath::of(&["clients", &self.id, "portal", portal]))?;
            screen.tell(&format!("{} closed\n", plain(portal)))
        })
    }
}

/// Lists the open portals of a client.
pub(super) fn list(id: &str, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let portals = api.get(&below(id, "portal"))?;
    let width = screen.width();
    screen.show(&portals, || {
        let rows: Vec<_> = api.read::<PortalsView>(&portals)?.items.iter().map(PortalView::cells).collect();
        Ok(TextTable::new(&["ID", "MAY", "EXPIRES", "BY"]).within(width).lines(&rows))
    })
}

impl PortalView {
    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            Cell::text(&self.may.join(",")),
            Cell::text(&to_second(&self.expires_at)),
            Cell::maybe(self.by.as_deref()),
        ]
    }

    fn facts(&self) -> String {
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("may", Cell::text(&self.may.join(","))),
            ("expires", Cell::text(&to_second(&self.expires_at))),
        ];
        if let Some(url) = &self.url {
            known.push(("path", Cell::text(url)));
        }
        facts(&known) + "Put the server's address before the path. Whoever has the link has the portal.\n"
    }
}
