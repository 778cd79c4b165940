//! Streams against the built program: what a producer and a reader are promised, in every save
//! mode, also across `kill -9`.

mod blocks;
mod calls;
mod copies;
mod deduplication;
mod kills;
mod lines;
mod over_grpc;
mod page;
mod reading;
mod refusals;
mod retention;
mod settings;
mod storages;
mod subscriptions;
mod tutorial;

use serde_json::{Value, json};

use crate::contract::rig::{PATIENCE, Rig};
use crate::wire::Answer;

/// The stream of most tests.
const S: &str = "/v1/streams/shop/orders";

/// Every save mode.
const MODES: [&str; 4] = ["sync", "wait", "periodic", "memory"];

/// Appends what has to be taken: a message, or messages and what stands beside them.
async fn append(rig: &Rig, body: &Value) -> Vec<Value> {
    let answer = rig.json("POST", &format!("{S}/messages"), &body.to_string()).await;
    assert_eq!(answer.status, 201, "{body}: {answer:?}");
    answer.json()["messages"].as_array().expect("messages").clone()
}

/// Appends so many numbers from `first` on, each of which is its own payload.
async fn append_numbers(rig: &Rig, first: u64, count: u64) -> Vec<Value> {
    let messages: Vec<_> = (first..first + count).map(|number| json!({"payload": number})).collect();
    append(rig, &json!({"messages": messages})).await
}

/// What is read with these parameters.
async fn read(rig: &Rig, parameters: &str) -> Value {
    rig.get(&format!("{S}/messages{parameters}")).await
}

/// All that a stream has, page by page.
async fn read_all(rig: &Rig) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = read(rig, &format!("?limit=1000&after={after}")).await;
        let items = page["items"].as_array().expect("items");
        if items.is_empty() {
            return all;
        }
        all.extend(items.iter().cloned());
        page["next_after"].as_str().expect("an id").clone_into(&mut after);
    }
}

async fn set(rig: &Rig, settings: &Value) {
    let answer = rig.json("PUT", &format!("{S}/settings"), &settings.to_string()).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{settings}: {answer:?}");
}

async fn stream(rig: &Rig) -> Value {
    rig.get(S).await
}

/// The stream once it is so.
async fn until(rig: &Rig, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.api.until(S, PATIENCE, is_so).await.expect("it comes to that")
}

/// A member of each, as numbers.
fn numbers(items: &[Value], member: &str) -> Vec<u64> {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    items.iter().map(|item| number(&item[member]).unwrap_or_else(|| panic!("{member} of {item}"))).collect()
}

/// The ids of what was appended, as they are shown.
fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["id"].as_str().unwrap_or_else(|| panic!("the id of {item}"))).collect()
}

/// A refusal by its status and its code.
fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}
