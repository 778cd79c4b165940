//! Nodes of a test: servers with names, each behind a line.

use serde_json::{Value, json};
use tokio::process::Command;

use super::line::NodeLine;
use crate::contract::rig::{PATIENCE, Rig};

/// A node, and the line by which others reach it.
pub(super) struct TestNode {
    pub(super) name: &'static str,
    pub(super) rig: Rig,
    pub(super) line: NodeLine,
}

/// Nodes of these names.
pub(super) async fn start<const N: usize>(names: [&'static str; N]) -> [TestNode; N] {
    let mut all = Vec::with_capacity(N);
    for name in names {
        all.push(TestNode::start(name).await);
    }
    all.try_into().unwrap_or_else(|_| unreachable!("one for each name"))
}

impl TestNode {
    pub(super) async fn start(name: &'static str) -> Self {
        Self::on(name, Rig::start(&[("FIELDPOST_NODE__NAME", name)]).await).await
    }

    pub(super) async fn on(name: &'static str, rig: Rig) -> Self {
        let line = NodeLine::start(rig.site.http.address().await).await;
        Self { name, rig, line }
    }

    /// Registers another node by the name that it has.
    pub(super) async fn knows(&self, other: &Self) {
        self.reaches(other, &json!({"url": format!("http://{}", other.line.address)})).await;
    }

    /// Registers another node by the name that it has, to be reached in this way.
    pub(super) async fn reaches(&self, other: &Self, node: &Value) {
        let answer = self.rig.json("PUT", &format!("/v1/nodes/{}", other.name), &node.to_string()).await;
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }

    /// Makes or changes a copy.
    pub(super) async fn copies(&self, path: &str, terms: &Value) {
        let answer = self.rig.json("PUT", path, &terms.to_string()).await;
        assert!([200, 201].contains(&answer.status), "{terms}: {answer:?}");
    }

    pub(super) async fn kill_and_start(&mut self) {
        self.rig.restart().await;
        self.line.lead_to(self.rig.site.http.address().await);
    }

    /// Sends the process a signal that does not end it.
    pub(super) async fn signal(&self, signal: &str) {
        let process = self.rig.process_id().expect("it runs");
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{signal} {process}")).status().await;
        assert!(sent.expect("a shell").success());
    }
}

/// Has `from` copy all to `to`.
pub(super) async fn copied_to(from: &TestNode, to: &TestNode, path: &str) {
    // Whoever looks at the stream there finds one, copied to or not.
    let made = to.rig.json("PUT", "/v1/streams/shop/orders/settings", "{}").await;
    assert_eq!(made.status, 204, "{made:?}");
    from.knows(to).await;
    from.copies(path, &json!({"direction": "to", "node": to.name})).await;
}

/// The copy once nothing is left to be copied.
pub(super) async fn until_copied(node: &TestNode, path: &str) -> Value {
    let is_level = |copy: &Value| copy["lag"] == 0 && copy["state"] == "idle";
    node.rig.api.until(path, PATIENCE, is_level).await.expect("it is level")
}
