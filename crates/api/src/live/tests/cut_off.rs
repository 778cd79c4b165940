//! Streams that were cut off go on where they were, or tell that they are behind.

use super::*;

#[tokio::test]
async fn a_cut_stream_goes_on_with_nothing_missing_and_nothing_double() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    let query = "topics=events,timeline&device=d1";
    let mut reader = rig.open(query, None, None).await;
    let empty = [reader.next().await.expect("events"), reader.next().await.expect("the timeline")];
    assert!(empty.iter().all(|first| first.ids().is_empty()), "{empty:?}");
    rig.report("d1", 0..3).await;
    let count_of = |message: &Message| message.data["items"].as_array().expect("items").len();
    let (mut seen, mut timeline) = (reader.next().await.expect("one of both"), 0);
    while seen.event != "events" {
        timeline += count_of(&seen);
        seen = reader.next().await.expect("events");
    }
    drop(reader);
    rig.report("d1", 3..6).await;
    let mut reader = rig.open(query, None, seen.id.as_deref()).await;
    let mut events = count_of(&seen);
    while events < 6 || timeline < 6 {
        let message = reader.next().await.expect("what is missing");
        assert_eq!(message.data["first"], false, "{message:?}");
        let count = count_of(&message);
        if message.event == "events" { events += count } else { timeline += count }
    }
    assert_eq!(events, 6, "each came once");
    // The id of another stream is none of this one's: it begins anew.
    let mut anew = rig.open("topics=events", None, seen.id.as_deref()).await;
    assert_eq!(anew.next().await.expect("events").data["first"], true);
}

#[tokio::test]
async fn who_is_behind_is_told_and_goes_on_from_the_newest() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    let mut reader = rig.open("topics=events&last=3", None, None).await;
    let begin = reader.next().await.expect("events");
    drop(reader);
    for thousand in 0..2 {
        rig.report("d1", thousand * 1_000..(thousand + 1) * 1_000).await;
    }
    let mut reader = rig.open("topics=events&last=3", None, begin.id.as_deref()).await;
    let mut items = 0;
    let behind = loop {
        let message = reader.next().await.expect("events");
        if message.event == "behind" {
            break message;
        }
        assert_eq!(message.data["first"], false);
        items += message.ids().len();
    };
    assert_eq!((behind.data["topic"].as_str(), items), (Some("events"), 1_000));
    let newest = reader.next().await.expect("events");
    assert_eq!((&newest.data["first"], newest.ids().len()), (&Json::Bool(true), 3));
    assert_eq!(newest.data["items"][2]["value"], 1_999);
}
