//! `fieldpost lock`: locks that one owner holds at a time.

mod run;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags, TableRow};
use super::screen::Screen;
use super::server::ServerFlags;
use super::table::{Cell, facts, plain};
use super::when::to_second;

/// What can be done with locks.
#[derive(Debug, Subcommand)]
pub enum LockAction {
    /// Run a command while holding a lock; it is stopped if the lock is lost.
    Run(run::RunLocked),
    /// Hold a lock for a time, and show its owner and fence.
    Acquire(AcquireLock),
    /// Have a lock that is held end later.
    Extend(ExtendLock),
    /// Let a lock go.
    Release(ReleaseLock),
    /// Show how a lock stands.
    Show(LockPlace),
    /// List the locks that are held.
    #[command(visible_alias = "list")]
    Ls(LockListing),
}

/// A lock.
#[derive(Args, Debug)]
pub struct LockPlace {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The lock.
    #[arg(value_name = "LOCK")]
    name: String,
}

#[derive(Args, Debug)]
pub struct AcquireLock {
    #[command(flatten)]
    place: LockPlace,
    /// Who holds it; made up if left out.
    #[arg(long)]
    owner: Option<String>,
    /// How long it is held, such as 30s; 10s if left out.
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// How long to stand in line for it, such as 10s.
    #[arg(long, value_name = "DURATION", value_parser = base::duration::parse)]
    wait: Option<std::time::Duration>,
}

#[derive(Args, Debug)]
pub struct ExtendLock {
    #[command(flatten)]
    place: LockPlace,
    /// Who holds it.
    #[arg(long)]
    owner: String,
    /// How long from now.
    #[arg(long, value_name = "DURATION")]
    ttl: String,
}

#[derive(Args, Debug)]
pub struct ReleaseLock {
    #[command(flatten)]
    place: LockPlace,
    /// Who holds it.
    #[arg(long)]
    owner: String,
}

#[derive(Args, Debug)]
pub struct LockListing {
    /// Only those of this namespace.
    #[arg(long)]
    namespace: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Serialize)]
struct LockBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
}

#[derive(Deserialize)]
struct GrantView {
    owner: String,
    fence: String,
    expires_at: String,
}

#[derive(Deserialize)]
struct LockView {
    held: bool,
    owner: Option<String>,
    fence: String,
    waiting: u64,
    expires_at: Option<String>,
}

#[derive(Deserialize)]
struct LockRow {
    namespace: String,
    name: String,
    #[serde(flatten)]
    state: LockView,
}

impl LockPlace {
    fn below(&self, parts: &[&str]) -> ApiPath {
        ApiPath::of(&[&["locks", &self.namespace, &self.name], parts].concat())
    }

    fn shown(&self) -> String {
        format!("{}/{}", plain(&self.namespace), plain(&self.name))
    }
}

impl LockAction {
    pub(super) fn run(
        &self,
        server: &ServerFlags,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<(), CommandFailure> {
        match self {
            Self::Run(run) => run.run(server, api, screen),
            Self::Acquire(AcquireLock { place, owner, ttl, wait }) => {
                let (owner, ttl) = (owner.as_deref(), ttl.as_deref());
                let body = LockBody { owner, ttl, wait: wait.map(base::duration::format) };
                let grant = api.post_and_wait(&place.below(&[]), &body, None, wait.unwrap_or_default())?;
                screen.show(&grant, || Ok(api.read::<GrantView>(&grant)?.facts()))
            }
            Self::Extend(ExtendLock { place, owner, ttl }) => {
                let body = LockBody { owner: Some(owner), ttl: Some(ttl), wait: None };
                let grant = api.post(&place.below(&["extend"]), &body)?;
                screen.show(&grant, || Ok(api.read::<GrantView>(&grant)?.facts()))
            }
            Self::Release(ReleaseLock { place, owner }) => {
                let body = LockBody { owner: Some(owner), ttl: None, wait: None };
                api.tell(&place.below(&["release"]), &body)?;
                screen.tell(&format!("{} let go\n", place.shown()))
            }
            Self::Show(place) => {
                let lock = api.get(&place.below(&[]))?;
                screen.show(&lock, || Ok(api.read::<LockView>(&lock)?.facts()))
            }
            Self::Ls(LockListing { namespace, list_flags }) => {
                let path = ApiPath::of(&["locks"]).with_maybe("namespace", namespace.as_ref());
                list::show::<LockRow>(api, screen, &path, list_flags, "no locks are held")
            }
        }
    }
}

impl GrantView {
    fn facts(&self) -> String {
        facts(&[
            ("owner", Cell::text(&self.owner)),
            ("fence", Cell::text(&self.fence)),
            ("ends", Cell::text(&to_second(&self.expires_at))),
        ])
    }
}

impl LockView {
    fn ends(&self) -> Cell {
        Cell::maybe(self.expires_at.as_deref().map(to_second).as_deref())
    }

    fn facts(&self) -> String {
        facts(&[
            ("held", Cell::text(if self.held { "yes" } else { "no" })),
            ("owner", Cell::maybe(self.owner.as_deref())),
            ("fence", Cell::text(&self.fence)),
            ("waiting", Cell::number(self.waiting)),
            ("ends", self.ends()),
        ])
    }
}

impl TableRow for LockRow {
    const HEADINGS: &'static [&'static str] = &["NAMESPACE", "LOCK", "OWNER", "FENCE", "WAITING", "ENDS"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.namespace),
            Cell::text(&self.name),
            Cell::maybe(self.state.owner.as_deref()),
            Cell::text(&self.state.fence).aligned_right(),
            Cell::number(self.state.waiting),
            self.state.ends(),
        ]
    }
}
