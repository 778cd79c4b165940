//! What a node asks of others before it speaks with them: a token that may do what the copy does,
//! and trust in its certificate. A copy that is not let in says why, and goes on once it is.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::server::Site;

use super::super::{append_numbers, numbers};
use super::nodes::{TestNode, until_copied};
use super::{COPY, PATIENCE};
use crate::contract::rig::{BINARY, Rig};

/// Tokens of a node that asks for one, and what each may do.
const TOKENS: [(&str, &str); 5] = [
    ("producer", "streams:shop:append"),
    ("reader", "streams:shop:read"),
    ("both", "streams:shop"),
    ("stranger", "streams:post"),
    ("reporter", "report"),
];
/// Each token is this and its name, which refusals show.
const SECRET: &str = "secret-of-";
/// A stream that gets back what its node gave to another one, and the copy that does it.
const BACK: &str = "/v1/streams/shop/back";
const BACK_COPY: &str = "/v1/streams/shop/back/copies/back";
const REPORTS_COPY: &str = "/v1/streams/edge/reports/copies/centre";
/// What a node says to whoever shows no token, and one that it does not know.
const NO_TOKEN: &str = "401 unauthorized: this call takes a token";
const WRONG_TOKEN: &str = "401 unauthorized: the token is not one";
const UNTRUSTED: &str =
    "TLS failed: its certificate is not trusted (invalid peer certificate: UnknownIssuer)";

/// A node that asks for a token.
async fn guarded(name: &'static str, settings: &[(&str, &str)]) -> TestNode {
    let settings = [&[("FIELDPOST_NODE__NAME", name)], settings].concat();
    let site = Site::new(Path::new(BINARY), &settings).expect("a directory");
    let tokens = TOKENS.map(|(name, scope)| {
        let sha256 = Sha256::digest(format!("{SECRET}{name}"));
        format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{sha256:x}\"\nscopes = [\"{scope}\"]\n")
    });
    fs::write(site.log_path().with_file_name("tokens.toml"), tokens.concat()).expect("written");
    // The program gets its arguments behind these, and the last thing that it is told is the file.
    let launcher = ["sh", "-c", "exec \"$@\" --config tokens.toml", "sh"].map(str::to_owned);
    TestNode::on(name, Rig::launch(site, launcher).await).await
}

/// Has `from` show `to` the token of that name, or none.
async fn shows(from: &TestNode, to: &TestNode, token: Option<&str>) {
    let token = token.map(|name| format!("{SECRET}{name}"));
    from.reaches(to, &json!({"url": format!("http://{}", to.line.address), "token": token})).await;
}

/// The copy once it waits and says this.
async fn until_it_says(node: &TestNode, path: &str, says: &str) -> Value {
    let is_so = |copy: &Value| {
        copy["state"] == "waiting" && copy["error"].as_str().is_some_and(|error| error.contains(says))
    };
    node.rig.api.until(path, PATIENCE, is_so).await.expect(says)
}

/// Waits until a node is shown so: with this error, or as one that answers.
async fn until_shown(node: &TestNode, name: &str, error: Option<&str>) {
    let is_so = |shown: &Value| shown["reachable"] == error.is_none() && shown["error"] == json!(error);
    let _: Value = node.rig.api.until(&format!("/v1/nodes/{name}"), PATIENCE, is_so).await.expect(name);
}

/// Shows each token to the other node in turn: none is let in, and the copy says why. A token that
/// is known and may not do this is no error of the node, which has answered.
async fn check_not_let_in(one: &TestNode, two: &TestNode, path: &str, shown: &[(Option<&str>, &str)]) {
    for (token, says) in shown {
        shows(one, two, *token).await;
        let copy = until_it_says(one, path, says).await;
        assert_eq!((&copy["position"], &copy["copied"]), (&json!("0"), &json!(0)), "{copy}");
        let error = says.starts_with("401").then_some("it answers 401 Unauthorized");
        until_shown(one, two.name, error).await;
    }
}

/// Waits until numbers up to this one have come back, once and in order.
async fn check_back(node: &TestNode, last: u64) {
    let are_there = |stream: &Value| stream["messages"].as_u64() >= Some(last);
    let _: Value = node.rig.api.until(BACK, PATIENCE, are_there).await.expect("they come");
    let items = node.rig.items(&format!("{BACK}/messages")).await;
    assert_eq!(numbers(&items, "payload"), (1..=last).collect::<Vec<u64>>());
}

/// Has a node fetch what another one has into a stream of its own.
async fn fetches_back(one: &TestNode, two: &TestNode) {
    let terms = json!({"direction": "from", "node": two.name, "stream": "shop/orders"});
    one.copies(BACK_COPY, &terms).await;
}

#[tokio::test]
async fn a_node_is_shown_a_token_that_may_do_what_the_copy_does() {
    let settings = [("FIELDPOST_NODE__NAME", "one"), ("RUST_LOG", "trace")];
    let mut one = TestNode::on("one", Rig::start(&settings).await).await;
    let two = guarded("two", &[]).await;
    append_numbers(&one.rig, 1, 10).await;
    shows(&one, &two, None).await;
    one.copies(COPY, &json!({"direction": "to", "node": "two"})).await;
    let strange = "403 forbidden: token \"stranger\" may not do this";
    let reads = "403 forbidden: token \"reader\" may not do this";
    let refused = [
        (None, NO_TOKEN),
        (Some("nobody"), WRONG_TOKEN),
        (Some("stranger"), strange),
        (Some("reader"), reads),
    ];
    check_not_let_in(&one, &two, COPY, &refused).await;
    shows(&one, &two, Some("producer")).await;
    let copied = until_copied(&one, COPY).await;
    // A batch whose answer took too long goes a second time.
    let count = |of: &str| copied[of].as_u64().expect("a count");
    assert_eq!(count("copied") + count("duplicates"), 10, "{copied}");
    assert_eq!(copied["error"], Value::Null, "{copied}");

    fetches_back(&one, &two).await;
    let appends = "403 forbidden: token \"producer\" may not do this";
    let refused = [
        (Some("producer"), appends),
        (None, NO_TOKEN),
        (Some("nobody"), WRONG_TOKEN),
        (Some("stranger"), strange),
    ];
    check_not_let_in(&one, &two, BACK_COPY, &refused).await;
    shows(&one, &two, Some("reader")).await;
    check_back(&one, 10).await;

    append_numbers(&one.rig, 11, 10).await;
    let copy = until_it_says(&one, COPY, reads).await;
    assert_eq!(copy["position"], "10", "{copy}");
    shows(&one, &two, Some("both")).await;
    check_back(&one, 20).await;
    one.kill_and_start().await;
    append_numbers(&one.rig, 21, 10).await;
    check_back(&one, 30).await;
    until_shown(&one, "two", None).await;

    for path in ["/v1/nodes", "/v1/nodes/two", COPY, BACK_COPY] {
        let answer = one.rig.json("GET", path, "").await;
        assert!(answer.status == 200 && !answer.body.contains(SECRET), "{path}: {answer:?}");
    }
    assert!(!one.rig.site.log().contains(SECRET), "a token is logged");
}

#[tokio::test]
async fn a_copy_of_reports_shows_a_token_that_may_report() {
    let edge = TestNode::start("edge").await;
    let centre = guarded("centre", &[("FIELDPOST_DEVICES__UNKNOWN", "register")]).await;
    edge.rig.device(&json!({"id": "0xA"})).await;
    shows(&edge, &centre, None).await;
    edge.copies(REPORTS_COPY, &json!({"kind": "reports", "node": "centre"})).await;
    edge.rig.report("0xA", 1).await;
    let appends = "403 forbidden: token \"producer\" may not do this";
    let refused = [(None, NO_TOKEN), (Some("nobody"), WRONG_TOKEN), (Some("producer"), appends)];
    check_not_let_in(&edge, &centre, REPORTS_COPY, &refused).await;
    shows(&edge, &centre, Some("reporter")).await;
    let copied = until_copied(&edge, REPORTS_COPY).await;
    assert_eq!((&copied["copied"], &copied["refused"]), (&json!(1), &json!(0)), "{copied}");
}

/// Makes an authority that no system knows, and has it certify a server at 127.0.0.1.
fn certify(folder: &Path) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "an authority of its own");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, authority_key).expect("signed");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    let cert = params.signed_by(&key, &authority).expect("signed");
    for (name, text) in
        [("ca.pem", authority.pem()), ("cert.pem", cert.pem()), ("key.pem", key.serialize_pem())]
    {
        fs::write(folder.join(name), text).expect("written");
    }
}

#[tokio::test]
async fn over_https_a_node_has_to_be_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    certify(folder.path());
    let [ca, cert, key] =
        ["ca.pem", "cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    let settings = [
        ("FIELDPOST_NODE__NAME", "two"),
        ("FIELDPOST_TLS__CERT", cert.as_str()),
        ("FIELDPOST_TLS__KEY", key.as_str()),
    ];
    let two = TestNode::on("two", Rig::start(&settings).await).await;
    let mut one = TestNode::start("one").await;
    append_numbers(&one.rig, 1, 10).await;
    let there = json!({"url": format!("https://{}", two.line.address)});
    one.reaches(&two, &there).await;
    one.copies(COPY, &json!({"direction": "to", "node": "two"})).await;
    fetches_back(&one, &two).await;
    for path in [COPY, BACK_COPY] {
        let copy = until_it_says(&one, path, UNTRUSTED).await;
        assert_eq!((&copy["position"], &copy["copied"]), (&json!("0"), &json!(0)), "{copy}");
    }
    until_shown(&one, "two", Some(UNTRUSTED)).await;

    // The authorities are read at the start.
    one.rig.site.set("SSL_CERT_FILE", &ca);
    one.kill_and_start().await;
    check_back(&one, 10).await;
    until_copied(&one, COPY).await;
    until_shown(&one, "two", None).await;

    // The certificate is for the address alone.
    one.reaches(&two, &json!({"url": format!("https://localhost:{}", two.line.address.port())})).await;
    append_numbers(&one.rig, 11, 10).await;
    let copy = until_it_says(&one, COPY, "not valid for name").await;
    assert_eq!(copy["position"], "10", "{copy}");
    one.reaches(&two, &there).await;
    check_back(&one, 20).await;
}
