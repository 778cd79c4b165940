//! `fieldpost copy`: messages of a stream are given on to other nodes, or taken from them.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags, TableRow};
use super::screen::Screen;
use super::table::{BAD, Cell, facts, plain};
use super::when::to_second;

/// What can be done with copies.
#[derive(Debug, Subcommand)]
pub enum CopyAction {
    /// Make a copy, or give one other terms.
    Put(PutCopy),
    /// List the copies of a stream with how far each is behind.
    #[command(visible_alias = "list")]
    Ls(CopyListing),
    /// Show a copy.
    Show(CopyArgs),
    /// Have a copy rest.
    Pause(CopyArgs),
    /// Have a copy go on.
    Resume(CopyArgs),
    /// Delete a copy; what it copied stays.
    Delete(CopyArgs),
    /// Show on which nodes a message is durable.
    Receipt(AskReceipt),
}

/// The stream of a copy.
#[derive(Args, Debug)]
struct CopiedStream {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,
}

#[derive(Args, Debug)]
pub struct CopyListing {
    #[command(flatten)]
    place: CopiedStream,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// A copy of a stream.
#[derive(Args, Debug)]
pub struct CopyArgs {
    #[command(flatten)]
    place: CopiedStream,
    /// The copy.
    #[arg(value_name = "COPY")]
    name: String,
}

#[derive(Args, Debug)]
pub struct PutCopy {
    #[command(flatten)]
    copy: CopyArgs,
    /// Give the messages on to this node; self is the server itself.
    #[arg(long, value_name = "NODE", required_unless_present = "from_node", conflicts_with = "from_node")]
    to_node: Option<String>,
    /// Take messages from this node.
    #[arg(long, value_name = "NODE")]
    from_node: Option<String>,
    /// The stream there, if it has another name.
    #[arg(long, value_name = "NAMESPACE/STREAM")]
    other: Option<String>,
    /// Copy only messages of this segment; may be given several times.
    #[arg(long, value_name = "SEGMENT")]
    segment: Vec<String>,
    /// Where it begins: start, end, the id of the last message that is not copied, or a time.
    #[arg(long, value_name = "start|end|ID|TIME")]
    from: Option<String>,
    /// While it is far behind, give new messages this share of its rate: 0 to 0.999.
    #[arg(long, value_name = "SHARE")]
    live_share: Option<f64>,
    /// Bytes in a second at most.
    #[arg(long, value_name = "BYTES")]
    rate: Option<u64>,
    /// What is copied: messages of the stream, or reports of devices, which the node takes as any
    /// reports.
    #[arg(long, value_name = "messages|reports", value_parser = ["messages", "reports"])]
    kind: Option<String>,
    /// Whose reports: those of the devices that this selector means, such as site=12.
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
}

#[derive(Args, Debug)]
pub struct AskReceipt {
    #[command(flatten)]
    place: CopiedStream,
    /// The message, by its id.
    #[arg(value_name = "ID", required_unless_present = "source")]
    id: Option<u64>,
    /// The message, by its source,
    #[arg(long, requires = "external_id", conflicts_with = "id")]
    source: Option<String>,
    /// and its external id.
    #[arg(long, requires = "source")]
    external_id: Option<String>,
    /// On how many nodes it is to be.
    #[arg(long, default_value_t = 1)]
    nodes: u64,
    /// Wait so long for them, such as 30s.
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
}

#[derive(Serialize)]
struct CopyBody<'a> {
    direction: &'static str,
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    segments: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a str>,
}

/// How a copy stands.
#[derive(Deserialize)]
struct CopyView {
    name: String,
    kind: String,
    direction: String,
    node: String,
    /// A copy of kind reports has none.
    stream: Option<String>,
    selector: Option<String>,
    state: String,
    position: String,
    lag: u64,
    oldest_uncopied_at: Option<String>,
    copied: u64,
    duplicates: u64,
    dropped: u64,
    refused: u64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct ReceiptView {
    durable_on: Vec<String>,
    enough: bool,
}

impl CopiedStream {
    fn below(&self, parts: &[&str]) -> ApiPath {
        ApiPath::of(&[&["streams", &self.namespace, &self.stream], parts].concat())
    }
}

impl CopyArgs {
    fn path(&self, parts: &[&str]) -> ApiPath {
        self.place.below(&[&["copies", &self.name], parts].concat())
    }

    fn shown(&self) -> String {
        let CopiedStream { namespace, stream } = &self.place;
        format!("{} of {}/{}", plain(&self.name), plain(namespace), plain(stream))
    }
}

impl PutCopy {
    fn body(&self) -> CopyBody<'_> {
        let (direction, node) = match (&self.to_node, &self.from_node) {
            (Some(node), _) => ("to", node.as_str()),
            (None, from) => ("from", from.as_deref().unwrap_or_default()),
        };
        CopyBody {
            direction,
            node,
            stream: self.other.as_deref(),
            segments: &self.segment,
            from: self.from.as_deref(),
            live_share: self.live_share,
            rate: self.rate,
            kind: self.kind.as_deref(),
            selector: self.selector.as_deref(),
        }
    }
}

impl CopyAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Put(put) => {
                let copy = api.replace(&put.copy.path(&[]), &put.body())?;
                screen.show(&copy, || Ok(api.read::<CopyView>(&copy)?.facts()))
            }
            Self::Ls(CopyListing { place, list_flags }) => {
                list::show::<CopyView>(api, screen, &place.below(&["copies"]), list_flags, "no copies")
            }
            Self::Show(copy) => {
                let copy = api.get(&copy.path(&[]))?;
                screen.show(&copy, || Ok(api.read::<CopyView>(&copy)?.facts()))
            }
            Self::Pause(copy) => {
                api.start(&copy.path(&["pause"]))?;
                screen.tell(&format!("{} rests\n", copy.shown()))
            }
            Self::Resume(copy) => {
                api.start(&copy.path(&["resume"]))?;
                screen.tell(&format!("{} goes on\n", copy.shown()))
            }
            Self::Delete(copy) => {
                api.delete(&copy.path(&[]))?;
                screen.tell(&format!("{} deleted\n", copy.shown()))
            }
            Self::Receipt(ask) => ask.run(api, screen),
        }
    }
}

impl AskReceipt {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = self.place.below(&["receipts"]).with_maybe("id", self.id);
        let path = path.with_maybe("source", self.source.as_ref());
        let path = path.with_maybe("external_id", self.external_id.as_ref());
        let path = path.with("nodes", &self.nodes).with_maybe("wait", self.wait.as_ref());
        let receipt = api.get(&path)?;
        screen.show(&receipt, || Ok(api.read::<ReceiptView>(&receipt)?.facts()))
    }
}

impl ReceiptView {
    fn facts(&self) -> String {
        let nodes: Vec<String> = self.durable_on.iter().map(|node| plain(node)).collect();
        facts(&[
            ("durable on", Cell::maybe(Some(nodes.join(", ")).filter(|nodes| !nodes.is_empty()).as_deref())),
            ("enough", Cell::text(if self.enough { "yes" } else { "no" })),
        ])
    }
}

impl CopyView {
    /// The stream there, or what goes to no stream.
    fn other(&self) -> &str {
        self.stream.as_deref().unwrap_or(&self.kind)
    }

    fn facts(&self) -> String {
        let is_of_reports = self.kind == "reports";
        let mut all = vec![
            ("copy", Cell::text(&self.name)),
            (
                if self.direction == "to" { "to" } else { "from" },
                Cell::text(&format!("{} {}", self.node, self.other())),
            ),
        ];
        if is_of_reports {
            all.push(("selector", Cell::maybe(self.selector.as_deref())));
        }
        all.extend([
            ("state", Cell::text(&self.state)),
            ("position", Cell::text(&self.position)),
            ("lag", Cell::number(self.lag)),
            ("copied", Cell::number(self.copied)),
            ("duplicates", Cell::number(self.duplicates)),
            ("dropped", Cell::number(self.dropped)),
        ]);
        if is_of_reports {
            all.push(("refused", Cell::number(self.refused)));
        }
        all.push(("error", Cell::maybe(self.error.as_deref())));
        facts(&all)
    }
}

impl TableRow for CopyView {
    const HEADINGS: &'static [&'static str] =
        &["NAME", "", "NODE", "STREAM", "STATE", "POSITION", "LAG", "OLDEST", "COPIED", "DROPPED", "ERROR"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.name),
            Cell::text(&self.direction),
            Cell::text(&self.node),
            Cell::text(self.other()),
            Cell::text(&self.state),
            Cell::text(&self.position).aligned_right(),
            Cell::number(self.lag),
            Cell::maybe(self.oldest_uncopied_at.as_deref().map(to_second).as_deref()),
            Cell::number(self.copied),
            Cell::number(self.dropped),
            Cell::maybe(self.error.as_deref()).styled(BAD),
        ]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct PutCopyLine {
        #[command(flatten)]
        put: PutCopy,
    }

    #[test]
    fn a_copy_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&["--to-node", "dc1"][..], Some(r#"{"direction":"to","node":"dc1"}"#)),
            (
                &["--from-node", "dc1", "--other", "a/b", "--segment", "x", "--rate", "7"],
                Some(r#"{"direction":"from","node":"dc1","stream":"a/b","segments":["x"],"rate":7}"#),
            ),
            (
                &["--to-node", "dc1", "--kind", "reports", "--selector", "site=12"],
                Some(r#"{"direction":"to","node":"dc1","kind":"reports","selector":"site=12"}"#),
            ),
            (&["--to-node", "dc1", "--kind", "events"], None),
            (&["--to-node", "a", "--from-node", "b"], None),
            (&[], None),
        ] {
            let words = ["test", "shop", "orders", "all"].iter().chain(words);
            let line = PutCopyLine::try_parse_from(words).ok();
            let body = line.map(|line| serde_json::to_string(&line.put.body()).expect("JSON"));
            assert_eq!(body.as_deref(), expect);
        }
    }
}
