//! `/v1/nodes`: other servers that streams are copied to or from.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use engine::Engine;
use engine::nodes::{NodeStatus, unknown_node};
use engine::queries::BoundedPage;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::UNKNOWN_NODE;
use crate::params::Params;
use crate::path::NodeInPath;
use crate::shape::{self, NodeShape};

const ONE: &str = "/v1/nodes/{name}";

pub(super) fn routes() -> Routes {
    let listed =
        Call::new("The nodes that streams are copied to or from, in order of name").lists::<NodeShape<'_>>();
    let shown = Call::new("A node, and whether it answers")
        .gives::<NodeShape<'_>>(200, "the node")
        .refuses(&[UNKNOWN_NODE]);
    let put = Call::new("Makes a node, or has it reached in another way")
        .takes(shape::new_node_schema())
        .gives::<NodeShape<'_>>(201, "it is made")
        .gives::<NodeShape<'_>>(200, "it is changed")
        .refuses(&[
            (422, "invalid_name"),
            (422, "invalid_token"),
            (422, "invalid_url"),
            (422, "missing_field"),
            (429, "too_many_nodes"),
        ]);
    let deleted = Call::new("Deletes a node; copies with it wait from then on")
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_NODE]);
    Routes::default()
        .get("/v1/nodes", list, listed)
        .get(ONE, show, shown)
        .put(ONE, put_one, put)
        .delete(ONE, delete, deleted)
}

struct ListedNodes(Engine);

impl List for ListedNodes {
    type Key = NameKey;
    type Found = NodeStatus;
    type Shown<'a> = NodeShape<'a>;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        Ok(BoundedPage::indexed(self.0.nodes().list(after.map(|NameKey(name)| &**name), limit)))
    }

    fn key(node: &NodeStatus) -> NameKey {
        NameKey(node.node.name.clone())
    }

    fn show(node: &NodeStatus) -> NodeShape<'_> {
        node.into()
    }
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Response, Refused> {
    let page = params.page()?;
    list::answer(&api, page, ListedNodes(api.engine().clone())).await
}

fn present(api: &ApiState, name: &str) -> Result<NodeStatus, Problem> {
    api.engine().nodes().get(name).ok_or_else(|| unknown_node(name))
}

async fn show(State(api): State<ApiState>, NodeInPath(name): NodeInPath) -> Result<ApiAnswer, Refused> {
    Ok(ApiAnswer::ok(&NodeShape::from(&present(&api, &name)?)))
}

async fn put_one(
    State(api): State<ApiState>,
    NodeInPath(name): NodeInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let node = shape::new_node(&name, &body)?;
    let _held = body.into_memory();
    let is_new = api.engine().put_node(node).await?;
    let found = present(&api, &name)?;
    let shown = NodeShape::from(&found);
    Ok(if is_new { ApiAnswer::created(&shown) } else { ApiAnswer::ok(&shown) })
}

async fn delete(State(api): State<ApiState>, NodeInPath(name): NodeInPath) -> Result<ApiAnswer, Refused> {
    api.engine().delete_node(&name).await?;
    Ok(ApiAnswer::nothing())
}
