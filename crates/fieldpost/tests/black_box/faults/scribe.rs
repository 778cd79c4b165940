//! A writer of numbers: whoever looks after a crash knows at once which of them must be there.
//!
//! It writes 1, 2, 3 and so on, each three times. An import writes the number as the address of
//! some devices. A single report with an id writes it as a reading of a counter. And it is at the
//! head of long lines that are no reports, which the server has to keep as refused. The next number
//! follows when all are acknowledged; what the server could not answer is written again. The long
//! lines fill the log and soon leave the quarantine, so that checkpoints come early and the disk
//! stays empty.

use serde::Deserialize;
use serde_json::{Value, json};
use simulator::api_client::{ApiClient, ApiError};
use simulator::server::Site;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::faults::PATIENCE;

/// Devices that are written with each number.
const PLACARDS: usize = 20;
/// Long lines that are written with each number.
const LINES: usize = 16;
/// Nearly as long as a line may be.
const LINE_BYTES: usize = 60_000;
/// What fills them.
const FILLING: &str = " is no report";
/// More than a crash can leave unlooked at.
const READINGS_LOOKED_AT: usize = 1_000;

/// See the module.
pub(crate) struct Scribe {
    api: ApiClient,
    acknowledged: watch::Receiver<Acknowledged>,
    stop: watch::Sender<bool>,
    writing: JoinSet<()>,
}

/// The last numbers that the server vouched for.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    address: u64,
    reading: u64,
    refused: u64,
}

/// The beginning of a list.
#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Reading {
    data: u64,
}

#[derive(Deserialize)]
struct Placard {
    id: String,
    address: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    payload: String,
}

impl Scribe {
    /// Registers the counter at the running server of `site`, and begins to write.
    pub(crate) async fn begin(site: &Site) -> Result<Self, ApiError> {
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        api.post::<Value>("/v1/devices", &json!({"id": "counter", "kind": "counter"})).await?;
        let (tell, acknowledged) = watch::channel(Acknowledged::default());
        let stop = watch::Sender::new(false);
        let mut writing = JoinSet::new();
        writing.spawn(write(api.clone(), tell, stop.subscribe()));
        Ok(Self { api, acknowledged, stop, writing })
    }

    /// Holds what the server shows against what it vouched for.
    pub(crate) async fn check(&self) -> Result<(), ApiError> {
        let promised = *self.acknowledged.borrow();
        let placards: Vec<Placard> = self.api.list("/v1/devices?kind=placard").await?;
        for Placard { id, address } in placards {
            let shown: u64 = address.and_then(|address| address.parse().ok()).unwrap_or(0);
            assert!(shown >= promised.address, "{id} shows {shown}, {} was acknowledged", promised.address);
        }
        self.check_readings(promised.reading).await?;
        // The list ends in front of what other partitions are still writing.
        let is_there = |refused: &Page<Refused>| newest_refused(refused) >= promised.refused;
        let _: Page<Refused> = self.api.until("/v1/quarantine?limit=1", PATIENCE, is_there).await?;
        Ok(())
    }

    async fn check_readings(&self, promised: u64) -> Result<(), ApiError> {
        let path = format!("/v1/devices/counter/readings?order=desc&limit={READINGS_LOOKED_AT}");
        let page: Page<Reading> = self.api.get(&path).await?;
        let numbers: Vec<u64> = page.items.iter().map(|reading| reading.data).collect();
        let newest = numbers.first().copied().unwrap_or(0);
        assert!(newest >= promised, "counted to {newest}, {promised} was acknowledged");
        let before = newest.saturating_sub(READINGS_LOOKED_AT as u64);
        assert!(numbers.iter().copied().eq((before + 1..=newest).rev()), "not each once: {numbers:?}");
        Ok(())
    }

    /// Stops writing, and looks a last time.
    pub(crate) async fn finish(mut self) -> Result<u64, ApiError> {
        self.stop.send_replace(true);
        while let Some(ended) = self.writing.join_next().await {
            ended.expect("writing neither panics nor is aborted");
        }
        self.check().await?;
        Ok(self.acknowledged.borrow().refused)
    }
}

fn newest_refused(page: &Page<Refused>) -> u64 {
    let newest = page.items.first().and_then(|refused| refused.payload.split_once(FILLING));
    newest.map_or(Ok(0), |(number, _)| number.parse()).expect("a line of the scribe")
}

async fn write(api: ApiClient, tell: watch::Sender<Acknowledged>, stop: watch::Receiver<bool>) {
    for number in 1.. {
        while let Err(error) = import(&api, number).await {
            eprintln!("{number} is imported again: {error}");
        }
        tell.send_modify(|last| last.address = number);
        while let Err(error) = report(&api, number).await {
            eprintln!("{number} is reported again: {error}");
        }
        tell.send_modify(|last| last.reading = number);
        while let Err(error) = report_badly(&api, number).await {
            eprintln!("{number} is refused again: {error}");
        }
        tell.send_modify(|last| last.refused = number);
        if *stop.borrow() {
            return;
        }
    }
}

async fn import(api: &ApiClient, number: u64) -> Result<(), ApiError> {
    let placard = |placard| {
        let device =
            json!({"id": format!("placard{placard}"), "kind": "placard", "address": number.to_string()});
        format!("{device}\n")
    };
    let lines = (0..PLACARDS).map(placard).collect();
    let answer: Value = api.post_lines("/v1/devices/import", lines).await?;
    assert_eq!(answer["rejected_count"], 0, "{answer}");
    Ok(())
}

async fn report(api: &ApiClient, number: u64) -> Result<(), ApiError> {
    let report = json!({"device_id": "counter", "data": number, "id": number.to_string()});
    let answer: Value = api.post("/v1/reports", &report).await?;
    assert_eq!(answer["accepted"], 1, "{answer}");
    Ok(())
}

async fn report_badly(api: &ApiClient, number: u64) -> Result<(), ApiError> {
    let line = format!("{number}{}\n", FILLING.repeat(LINE_BYTES / FILLING.len()));
    let answer: Value = api.post_lines("/v1/reports", line.repeat(LINES)).await?;
    assert_eq!(answer["rejected_count"], LINES, "{answer}");
    Ok(())
}
