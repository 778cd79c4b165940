//! A client that takes every connection and never answers, linked to everything that the others are
//! linked to.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::receiver::{Behaviour, Retain, WebhookReceiver};

use super::Failure;
use super::machine::ms;
use super::report::Report;
use super::sink::Sink;
use super::site::Fieldpost;

const DEVICES: usize = 1_000;
const ROUNDS: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it takes until another client is told of 1,000 changes, without such a client and with
/// it.
pub(super) async fn others_are_told(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "dead_receiver_1000devices_changes_told_to_another";
    let alone = told(report, NAME, false).await?;
    let beside = told(report, NAME, true).await?;
    report.figure(&format!("{NAME} without / with it"), format!("{:.0} / {:.0} ms", ms(alone), ms(beside)));
    Ok(())
}

async fn told(report: &mut Report, name: &str, with_dead: bool) -> Result<Duration, Failure> {
    let server = Fieldpost::start().await?;
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    let mut sink = Sink::open().await?;
    let mut dead = WebhookReceiver::open(Retain::Latest)?;
    dead.behave(Behaviour::Hanging).await;
    let mut clients = vec![("well", format!("http://{}/hook", sink.address))];
    if with_dead {
        clients.push(("dead", dead.url()));
    }
    for (id, url) in &clients {
        api.post::<Value>("/v1/clients", &json!({"id": id, "name": id, "url": url})).await?;
    }
    let ids: Vec<_> = clients.iter().map(|(id, _)| id).collect();
    let lines =
        |of: &dyn Fn(usize) -> Value| (0..DEVICES).map(|n| format!("{}\n", of(n))).collect::<String>();
    let import = lines(&|n| json!({"id": format!("D{n}"), "clients": ids}));
    api.post_lines::<Value>("/v1/devices/import", import).await?;
    let mut took = Vec::new();
    for round in 1..=ROUNDS {
        let start = Instant::now();
        let reports = lines(&|n| json!({"device_id": format!("D{n}"), "data": round % 2}));
        api.post_lines::<Value>("/v1/reports", reports).await?;
        sink.until(round * DEVICES as u64, PATIENCE).await?;
        took.push(start.elapsed());
    }
    report.note(&format!("  {name}, with it {with_dead}: {took:?}"))?;
    took.sort();
    server.stop().await?;
    Ok(took[took.len() / 2])
}
