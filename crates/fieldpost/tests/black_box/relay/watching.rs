//! Triggers that write the changes of a table into an outbox, and an inbox for consumers.

use serde_json::{Value, json};

use super::rig::RelayRig;

/// As SQL has it, and as the command line takes it.
const OUTBOX: &str = "\"my Shop\".\"Out\"\"box\"";

#[tokio::test]
async fn each_change_is_told_whoever_makes_it() {
    let mut rig = RelayRig::start().await;
    let role = format!("writer_{}", std::process::id());
    rig.sql(&format!(
        "CREATE TABLE \"Orders\" (\"Id\" int PRIMARY KEY, name text, secret text);\n\
         DROP ROLE IF EXISTS {role}; CREATE ROLE {role};\n\
         GRANT INSERT, UPDATE, DELETE, SELECT ON \"Orders\" TO {role};"
    ));
    let flags = ["--watch", "Orders", "--to", "stream:shop/orders", "--columns", "Id,name"];
    let script = rig.printed(&[&["sql", "--table", OUTBOX][..], &flags].concat());
    for _ in 0..2 {
        rig.sql(&script);
    }
    rig.sql(&format!(
        "SET ROLE {role};\n\
         INSERT INTO \"Orders\" VALUES (1, 'it''s', 's'), (2, NULL, 's');\n\
         UPDATE \"Orders\" SET name = 'b' WHERE \"Id\" = 1;\n\
         DELETE FROM \"Orders\" WHERE \"Id\" = 2;\n"
    ));
    let denied = rig.sql(&format!("SELECT has_table_privilege('{role}', '{OUTBOX}', 'INSERT')"));
    assert_eq!(denied, "f");
    rig.relay(&["--table", OUTBOX]).await;
    rig.until_messages("shop/orders", 4).await;
    let (one, two) = (json!({"Id": 1, "name": "it's"}), json!({"Id": 2, "name": null}));
    assert_eq!(
        rig.server.payloads("shop/orders").await,
        [
            json!({"op": "insert", "key": "1", "old": null, "new": one}),
            json!({"op": "insert", "key": "2", "old": null, "new": two}),
            json!({"op": "update", "key": "1", "old": one, "new": {"Id": 1, "name": "b"}}),
            json!({"op": "delete", "key": "2", "old": two, "new": null}),
        ]
    );
    rig.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role};"));
}

#[tokio::test]
async fn a_relay_needs_no_right_but_on_its_tables() {
    let mut rig = RelayRig::start().await;
    let role = format!("relay_{}", std::process::id());
    rig.sql(&format!(
        "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN PASSWORD 'p';\n\
         GRANT SELECT, UPDATE, DELETE ON fieldpost_outbox TO {role};\n\
         GRANT SELECT, INSERT ON fieldpost_outbox_refused TO {role};\n\
         INSERT INTO fieldpost_outbox (destination, payload) VALUES ('queue:shop/mail', '1'), \
         ('nowhere', '2');"
    ));
    let url = rig.url().replace(&format!("postgres:{}", crate::postgres::PASSWORD), &format!("{role}:p"));
    assert!(url.contains(&role));
    rig.relay_at(&url).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(1)]);
    rig.kill_relay().await;
    rig.until_sql(&format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'"), "0").await;
    rig.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role};"));
}

#[tokio::test]
async fn an_inbox_takes_each_message_once() {
    let rig = RelayRig::start().await;
    let script = rig.printed(&["sql", "--inbox"]);
    for _ in 0..2 {
        rig.sql(&script);
    }
    let first = |id: &str| rig.sql(&format!("SELECT fieldpost_inbox_first('shop/orders', '{id}')"));
    assert_eq!((first("1").as_str(), first("2").as_str(), first("1").as_str()), ("t", "t", "f"));
    rig.sql("BEGIN; SELECT fieldpost_inbox_first('shop/orders', '3'); ROLLBACK;");
    assert_eq!(first("3"), "t", "what was rolled back was not done");
    assert_eq!(rig.sql("SELECT fieldpost_inbox_forget('-1 hour')"), "3");
}

#[tokio::test]
async fn a_column_that_is_not_there_is_told() {
    let rig = RelayRig::start().await;
    rig.sql("CREATE TABLE t (id int)");
    let script = rig.printed(&["sql", "--watch", "t", "--to", "queue:a/b", "--key", "nope"]);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rig.sql(&script)));
    let told = told.expect_err("no such column");
    let told: &String = told.downcast_ref().expect("a text");
    assert!(told.contains("has no column nope"), "{told}");
    assert_eq!(rig.sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass"), "0");
    let none: Value = rig.server.get("/v1/relays").await;
    assert_eq!(none["items"], json!([]));
}
