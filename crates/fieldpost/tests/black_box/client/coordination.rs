//! Locks, limits, the cache and channels, as programs use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fieldpost_client::{ChannelUpdate, Error};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::rig::{PATIENCE, Rig};

/// Of a lock that is to be kept, also on a machine that is busy with other tests.
const TTL: Duration = Duration::from_secs(9);
/// Of one that is to be lost.
const SHORT_TTL: Duration = Duration::from_millis(900);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lock_is_extended_while_it_is_held_and_goes_to_whoever_waits() {
    let rig = Rig::start().await;
    let lock = rig.client.lock("shop", "report").ttl(TTL);
    let first = lock.acquire().await.expect("an answer").expect("nobody has it");
    assert!(lock.acquire().await.expect("an answer").is_none(), "it is held");
    let waiting = lock.clone().wait(LONG);
    let next = tokio::spawn(async move { waiting.acquire().await });
    // Somebody waits for it, and it ends later than at first.
    let ends_at = lock.state().await.expect("a state").expires_at;
    let extended = async {
        loop {
            let state = lock.state().await.expect("a state");
            if state.waiting == 1 && state.expires_at > ends_at {
                break state;
            }
        }
    };
    let state = timeout(PATIENCE, extended).await.expect("it is extended");
    assert_eq!((state.fence, state.held), (first.fence().to_string(), true));
    assert!(first.is_held() && !next.is_finished());
    let fence = first.fence();
    first.release().await.expect("let go");
    let second = timeout(PATIENCE, next).await.expect("in time").expect("no panic").expect("an answer");
    let second = second.expect("it was first in line");
    assert!(second.fence() > fence, "{} after {fence}", second.fence());
    // A guard that goes without a word lets go as well.
    drop(second);
    let third = lock.clone().wait(LONG).acquire().await.expect("an answer");
    assert!(third.is_some());
}

#[tokio::test]
async fn a_lock_that_cannot_be_extended_is_told_to_be_lost() {
    let mut rig = Rig::start().await;
    let held = rig.client.lock("shop", "report").ttl(SHORT_TTL).acquire().await.expect("an answer");
    let held = held.expect("nobody has it");
    rig.kill().await;
    timeout(PATIENCE, held.lost().cancelled()).await.expect("it is told");
    assert!(!held.is_held());
}

#[tokio::test]
async fn a_limit_is_one_for_all_that_ask() {
    let rig = Rig::start().await;
    let limiter = rig.client.limiter("shop", "sms", 5, Duration::from_secs(3_600));
    let other = limiter.clone();
    assert!(limiter.ask(3).await.expect("an answer").allowed);
    let refused = other.ask(3).await.expect("an answer");
    assert_eq!((refused.allowed, refused.remaining), (false, 2));
    assert!(refused.retry_after > Duration::from_secs(3_000), "{refused:?}");
    timeout(PATIENCE, other.until_allowed(2)).await.expect("at once").expect("an answer");
    let wrong = limiter.ask(6).await.expect_err("more than may ever come");
    assert_eq!(wrong.code(), Some("invalid_number"));
    let soon = rig.client.limiter("shop", "soon", 1, Duration::from_millis(50)).window();
    for _ in 0..3 {
        timeout(PATIENCE, soon.until_allowed(1)).await.expect("in time").expect("an answer");
    }
}

#[tokio::test]
async fn a_value_is_made_once_by_all_who_ask_for_it_together() {
    let mut rig = Rig::start().await;
    let cache = rig.client.cache("shop");
    assert_eq!(cache.get("logo").await.expect("an answer"), None);
    cache.put("logo", Bytes::from_static(b"\x00\xff"), Some(LONG)).await.expect("put");
    assert_eq!(cache.get("logo").await.expect("an answer"), Some(Bytes::from_static(b"\x00\xff")));
    assert!(!cache.put_if_absent("logo", Bytes::new(), None).await.expect("an answer"));
    assert!(cache.put_if_absent("other", Bytes::new(), None).await.expect("an answer"));
    let there = cache.get_many(&["logo", "other", "none"]).await.expect("an answer");
    assert_eq!(there.keys().collect::<Vec<_>>(), ["logo", "other"]);
    assert_eq!(cache.delete(&["logo", "none"]).await.expect("an answer"), 1);

    let made = Arc::new(AtomicU32::new(0));
    let asking = (0..20).map(|_| {
        let (cache, made) = (cache.clone(), Arc::clone(&made));
        tokio::spawn(async move {
            let make = || async {
                made.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Error>(Bytes::from_static(b"dear"))
            };
            cache.get_or_make("report", None, make).await
        })
    });
    for asking in asking.collect::<Vec<_>>() {
        assert_eq!(asking.await.expect("no panic").expect("an answer"), "dear");
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);

    // Whoever made it has it, also where it could not be put.
    let cache = rig.impatient().cache("shop");
    let killed = rig.kill();
    let make = || async {
        killed.await;
        Ok::<_, Error>(Bytes::from_static(b"late"))
    };
    assert_eq!(cache.get_or_make("late", None, make).await.expect("made"), "late");
}

#[tokio::test]
async fn a_listener_connects_again_and_says_so() {
    let mut rig = Rig::start().await;
    let channels = rig.client.channels("shop");
    let mut listening = channels.listen(&["orders", "alarm-*"]);
    let told = |update: Result<ChannelUpdate, Error>| match update.expect("no refusal") {
        ChannelUpdate::Message { channel, message } => (channel, message.get().to_owned()),
        _ => (String::new(), "listening".to_owned()),
    };
    assert_eq!(told(listening.next().await).1, "listening");
    assert_eq!(channels.publish("alarm-north", &json!({"n": 1})).await.expect("an answer"), 1);
    assert_eq!(channels.publish("bills", &1).await.expect("an answer"), 0);
    assert_eq!(told(listening.next().await), ("alarm-north".to_owned(), r#"{"n":1}"#.to_owned()));
    rig.kill().await;
    rig.start_again().await;
    assert_eq!(told(timeout(PATIENCE, listening.next()).await.expect("in time")).1, "listening");
    channels.publish("orders", &Value::Null).await.expect("an answer");
    assert_eq!(told(listening.next().await), ("orders".to_owned(), "null".to_owned()));
    let wrong = channels.listen(&["a b"]).next().await.expect_err("no name");
    assert_eq!(wrong.code(), Some("invalid_name"));
}
