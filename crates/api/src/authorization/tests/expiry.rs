//! Portals end by themselves when their time is over.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::portals::World;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A clock that goes on by itself, and leaps when the test says so.
struct Leaping {
    began: Instant,
    ahead_ms: AtomicI64,
}

impl Leaping {
    fn leap(&self, span: Duration, engine: &Engine) {
        self.ahead_ms.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
        engine.clocks_stepped();
    }
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        Timestamp(self.ahead_ms.load(Ordering::SeqCst)).after(self.began.elapsed())
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

#[tokio::test]
async fn a_portal_ends_when_its_time_is_over() {
    let clock = Arc::new(Leaping { began: Instant::now(), ahead_ms: AtomicI64::new(1_000_000_000_000) });
    let rig = Rig::by(Arc::clone(&clock) as Arc<dyn Clock>, Access::of(tokens())).await;
    let world = World::of(rig).await;
    let token = world.open("acme", r#"["read"]"#).await;
    let listed = async || {
        let listed = world.rig.with("admin", "GET /v1/clients/acme/portal", "").await.json;
        listed["items"].as_array().expect("items").len()
    };
    clock.leap(58 * MINUTE, &world.rig.engine);
    world.rig.check(&token, "GET /v1/clients/acme", 200).await;
    assert_eq!(listed().await, 1);
    clock.leap(3 * MINUTE, &world.rig.engine);
    for call in ["GET /v1/clients/acme", "GET /v1/deliveries?client=acme", "GET /v1/caller"] {
        let answer = world.rig.with(&token, call, "").await;
        assert_eq!((answer.status, &answer.json["code"]), (401, &Json::from("unauthorized")), "{call}");
    }
    assert_eq!(listed().await, 0, "it takes no place");
}
