//! What a table has already is sent through the outbox, and never overtakes a newer change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rig::RelayRig;

#[tokio::test]
async fn what_is_there_is_sent_and_overtakes_no_newer_change() {
    let mut rig = RelayRig::start().await;
    rig.sql(
        "CREATE TABLE orders (a int, b text, version int, PRIMARY KEY (a, b));\n\
         INSERT INTO orders SELECT n, 'x', 0 FROM generate_series(1, 3000) n;",
    );
    let watch = ["sql", "--watch", "orders", "--to", "stream:shop/orders", "--key", "a"];
    rig.sql(&rig.printed(&watch));
    rig.relay(&[]).await;
    let changes: String = (1..=30)
        .map(|version| format!("UPDATE orders SET version = {version} WHERE a % 10 = {};\n", version % 10))
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.sql(&changes));
        let sent = rig.about(&["backfill", "--table", "orders", "--to", "stream:shop/orders", "--json"]);
        assert_eq!(sent.trim(), r#"{"rows":3000}"#);
    });
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let (mut versions, mut reads) = (BTreeMap::<String, u64>::new(), 0);
    for change in rig.server.payloads("shop/orders").await {
        let key = change["key"].as_str().expect("a text").to_owned();
        let version = change["new"]["version"].as_u64().expect("a number");
        reads += u64::from(change["op"] == "read");
        let before = versions.insert(key, version);
        assert!(before.is_none_or(|before| before <= version), "{change} after {before:?}");
    }
    assert_eq!((versions.len(), reads), (3_000, 3_000));
}

#[tokio::test]
async fn some_rows_and_columns_and_a_table_without_a_key() {
    let mut rig = RelayRig::start().await;
    rig.sql("CREATE TABLE \"My.Table\" (n int, t text); INSERT INTO \"My.Table\" VALUES (1, 'a'), (2, 'b')");
    let flags = ["--to", "stream:shop/t", "--where", "n > 1 -- not 1", "--columns", "t", "--key", "n"];
    let sent = rig.about(&[&["backfill", "--table", "\"My.Table\""][..], &flags].concat());
    assert_eq!(sent.trim(), "rows: 1");
    rig.relay(&[]).await;
    rig.until_messages("shop/t", 1).await;
    let expect: [Value; 1] = [json!({"op": "read", "key": "2", "old": null, "new": {"t": "b"}})];
    assert_eq!(rig.server.payloads("shop/t").await, expect);
}

#[tokio::test]
async fn a_column_may_have_any_name() {
    let mut rig = RelayRig::start().await;
    rig.sql("CREATE TABLE tr (id int PRIMARY KEY, r text, c text); INSERT INTO tr VALUES (1, 'x', 'y')");
    let backfill = ["backfill", "--table", "tr", "--to", "stream:shop/tr"];
    for more in [&[][..], &["--columns", "r,c"], &["--key", "r"]] {
        assert_eq!(rig.about(&[&backfill[..], more].concat()).trim(), "rows: 1", "{more:?}");
    }
    rig.relay(&[]).await;
    rig.until_messages("shop/tr", 3).await;
    let (all, some) = (json!({"id": 1, "r": "x", "c": "y"}), json!({"r": "x", "c": "y"}));
    let read = |key, new: &Value| json!({"op": "read", "key": key, "old": null, "new": new});
    let expect = [read("1", &all), read("1", &some), read("x", &all)];
    assert_eq!(rig.server.payloads("shop/tr").await, expect);
}

#[tokio::test]
async fn a_column_that_is_not_there_is_refused_before_anything_is_written() {
    let rig = RelayRig::start().await;
    rig.sql("CREATE TABLE orders (a int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 3)");
    let backfill = ["backfill", "--table", "orders", "--to", "stream:shop/orders"];
    for flags in [["--key", "nope"], ["--columns", "a,nope"], ["--key", "ctid"]] {
        let output = rig.run(&[&backfill[..], &flags, &["--database", &rig.url()]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {told}");
        assert!(told.contains("public.orders has no column"), "{flags:?}: {told}");
    }
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox"), "0");
}

#[tokio::test]
async fn what_is_no_condition_is_refused_before_anything_is_written() {
    let rig = RelayRig::start().await;
    rig.sql("CREATE TABLE orders (a int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 2500)");
    let backfill = ["backfill", "--table", "orders", "--to", "stream:shop/orders", "--where"];
    for condition in [
        "1=1) or (1=1",
        "true) OR (true -- as one",
        "true); DELETE FROM orders; --",
        "a > 1 ORDER BY a",
        "a > 1 /*",
        "a > $1",
        "b > 1",
        "",
    ] {
        let output = rig.run(&[&backfill[..], &[condition, "--database", &rig.url()]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{condition}: {told}");
        assert!(told.contains("--where must be a condition in SQL"), "{condition}: {told}");
    }
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox"), "0");
    let condition = "(a % 2 = 0) or (')' = '(' /* ( */) -- )";
    assert_eq!(rig.about(&[&backfill[..], &[condition]].concat()).trim(), "rows: 1250");
}
