//! Tasks, campaigns and the fleet: what is asked, what is asked again, and how results are
//! followed.

use std::time::Duration;

use fieldpost_client::{
    CampaignChange, CampaignField, CampaignId, CampaignPlan, DeviceOutcome, DeviceSelection, Picks, TaskId,
    TaskPlan, TaskStatus,
};
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, ok, refused};

fn task(status: &str) -> Value {
    json!({ "id": "tsk_1", "status": status, "wanted": 1, "picked": 2, "answered": 1, "failed": 0, "expired": 1,
        "replaced": 1 })
}

fn results(next: Option<&str>) -> Value {
    let late = json!({ "ok": true, "at": "2026-11-21T01:02:09.000Z", "result": null });
    json!({ "items": [{ "device_id": "probe1", "picked_at": "2026-11-21T01:02:03.456Z", "answered_at": null,
        "outcome": "expired", "reason": "no_answer", "result": null, "late": late }],
        "next_cursor": next, "tail_cursor": "tail" })
}

#[tokio::test]
async fn a_task_whose_answer_is_lost_is_asked_again_under_its_key() {
    let stage = Stage::new(|asked| match asked.before {
        0 => Reply::Break,
        _ => Reply::Answer(201, task("done").to_string()),
    })
    .await;
    let asks = TaskPlan::json(&1, Picks::of(1).place("CN")).expect("a task");
    let done = stage.client().tasks().run(&asks, Duration::from_secs(10)).await.expect("an end");
    assert_eq!((done.id.as_str(), done.status, done.replaced), ("tsk_1", TaskStatus::Done, 1));
    let asked = stage.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").expect("a key")).collect();
    assert_eq!((keys.len(), keys[0]), (2, keys[1]));
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("POST", "/v1/tasks?wait=10000ms"));
}

#[tokio::test]
async fn results_are_followed_from_place_to_place() {
    let stage = Stage::new(|asked| ok(&results((asked.before == 0).then_some("next")))).await;
    let (tasks, id) = (stage.client().tasks(), TaskId::new("tsk_1"));
    let first = tasks.results(&id, None, Duration::ZERO).await.expect("a page");
    assert_eq!(first.items[0].outcome, DeviceOutcome::Expired);
    assert!(first.items[0].late.as_ref().is_some_and(|late| late.ok), "{first:?}");
    let second = tasks.results(&id, first.after(), Duration::from_secs(2)).await.expect("a page");
    assert!(second.next.is_some() || second.after() == second.tail.as_ref(), "{second:?}");
    let asked: Vec<_> = stage.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(
        asked,
        [
            "/v1/tasks/tsk_1/results?order=asc&wait=0ms",
            "/v1/tasks/tsk_1/results?order=asc&wait=2000ms&cursor=next",
        ]
    );
}

#[tokio::test]
async fn a_cancellation_that_got_through_unseen_is_one() {
    for (now, is_done) in [("cancelled", true), ("done", false)] {
        let stage = Stage::new(move |asked| match (asked.method.as_str(), asked.before) {
            ("DELETE", 0) => Reply::Break,
            ("DELETE", _) => refused(409, "finished"),
            _ => ok(&task(now)),
        })
        .await;
        let cancelled = stage.client().tasks().cancel(&TaskId::new("tsk_1")).await;
        assert_eq!(cancelled.is_ok(), is_done, "{now}: {cancelled:?}");
    }
}

#[tokio::test]
async fn campaigns_and_the_fleet_ask_what_the_api_reads() {
    let stage = Stage::new(|asked| match asked.path.split('?').next().unwrap_or_default() {
        "/v1/campaigns/dns" if asked.method == "PUT" || asked.method == "PATCH" => ok(&json!({ "id": "dns", "status": "running",
            "created_at": "2026-11-21T01:02:03.456Z", "count": 20,
            "results": { "url": "https://a", "secret": "whsec_x" } })),
        "/v1/fleet/count" => {
            ok(&json!({ "total": 2, "connected": 1, "online": 1, "lost": 0, "never_seen": 1,
            "items": [{ "value": null, "total": 2, "connected": 1 }] }))
        }
        "/v1/campaigns/dns/coverage" => {
            ok(&json!({ "eligible": 10, "picked": 15, "never_picked": 0, "min": 1,
            "max": 2, "mean": 1.5, "gini": 0.1, "items": [{ "value": null, "eligible": 10, "picked": 15, "never_picked": 0,
            "min": 1, "max": 2, "mean": 1.5, "gini": 0.1 }] }))
        }
        _ => Reply::Answer(204, String::new()),
    })
    .await;
    let (campaigns, fleet) = (stage.client().campaigns(), stage.client().fleet());
    let (id, minutes) = (CampaignId::new("dns"), Duration::from_secs(300));
    let plan = CampaignPlan::every(&1, Picks::of(20), minutes).expect("a plan").results_url("https://a");
    let made = campaigns.put(&id, &plan).await.expect("made");
    assert_eq!(made.secret.as_deref(), Some("whsec_x"));
    let change = CampaignChange::new().count(20).without(CampaignField::Until);
    campaigns.change(&id, &change).await.expect("changed");
    campaigns.pause(&id).await.expect("paused");
    campaigns.resume(&id).await.expect("resumed");
    let coverage = campaigns.coverage(&id, minutes, Some("site")).await.expect("a coverage");
    assert_eq!((coverage.all.min, coverage.all.max, coverage.more), (1, 2, false));
    assert_eq!((coverage.items[0].value.as_deref(), coverage.items[0].summary), (None, coverage.all));
    campaigns.delete(&id).await.expect("deleted");
    let count = fleet.count(&DeviceSelection::all().place("CN"), Some("operator")).await.expect("counts");
    assert_eq!((count.total, count.items[0].value.as_deref()), (2, None));
    let asked: Vec<_> =
        stage.asked().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert_eq!(
        asked,
        [
            "PUT /v1/campaigns/dns",
            "PATCH /v1/campaigns/dns",
            "POST /v1/campaigns/dns/pause",
            "POST /v1/campaigns/dns/resume",
            "GET /v1/campaigns/dns/coverage?period=300000ms&by=site",
            "DELETE /v1/campaigns/dns",
            "GET /v1/fleet/count?place=CN&by=operator",
        ]
    );
    let expect = json!({ "payload": 1, "count": 20, "every": "300000ms", "results": { "url": "https://a" } });
    assert_eq!(stage.asked()[0].json(), expect);
    assert_eq!(stage.asked()[1].json(), json!({ "count": 20, "until": null }));
}
