//! The OpenAPI document against the whole server: every path has just the methods that it says.

use std::collections::BTreeSet;

use crate::contract::rig::Rig;

#[tokio::test]
async fn the_document_and_the_listener_agree_on_paths_and_methods() {
    let rig = Rig::start(&[]).await;
    let document = rig.get("/openapi.json").await;
    let paths = document["paths"].as_object().expect("paths");
    for path in ["/v1/reports", "/v1/devices/import", "/v1/quarantine/{id}/replay", "/healthz"] {
        assert!(paths.contains_key(path), "{path}");
    }
    for (path, calls) in paths {
        let called = path.replace(['{', '}'], "");
        let answer = rig.json("BREW", &called, "").await;
        assert_eq!((answer.status, answer.text("code").as_str()), (405, "method_not_allowed"), "{path}");
        let allowed = answer.headers["allow"].split(',').map(str::trim).filter(|method| *method != "HEAD");
        let told = calls.as_object().expect("calls").keys().map(|method| method.to_ascii_uppercase());
        assert_eq!(allowed.map(str::to_owned).collect::<BTreeSet<_>>(), told.collect(), "{path}");
    }
}
