//! Exit codes, passwords, TLS, and what happens while the other side is away.

use serde_json::json;

use super::rig::{RelayRig, outbox_row};

#[tokio::test]
async fn a_wrong_url_ends_it_with_2_and_is_not_repeated() {
    let rig = RelayRig::start().await;
    for words in [
        &["run", "--database", "postgres://me:s3cret@"][..],
        &["run", "--database", "http://me:s3cret@h/d"],
        &["run", "--database", "postgres://me:s3cret@h/d", "--server", "127.0.0.1:8080"],
        &["run", "--database", "postgres://me:s3cret@h/d", "--table", "a.b.c"],
        &["run", "--database", "postgres://me:s3cret@h/d", "--on-refused", "cry"],
        &["run"],
        &["sql", "--watch", "t"],
    ] {
        let output = rig.run(words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(!told.contains("s3cret") && !told.is_empty(), "{told}");
    }
}

#[tokio::test]
async fn what_is_away_is_waited_for() {
    let mut rig = RelayRig::start_alone().await;
    rig.postgres().kill();
    rig.relay(&[]).await;
    rig.until_relays(|relays| relays.iter().any(|relay| relay["error"].is_string())).await;
    rig.postgres().start_again();
    rig.server.kill().await;
    rig.sql(&outbox_row("queue:shop/mail", None, &json!(1), None));
    rig.sql(&outbox_row("stream:shop/orders", None, &json!(2), None));
    rig.server.start_again().await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(1)]);
    rig.until_relays(|relays| relays.iter().any(|relay| relay["error"].is_null() && relay["waiting"] == 0))
        .await;
    assert!(rig.stop().await.success());
}

#[tokio::test]
async fn a_queue_that_may_not_be_published_to_holds_up_only_itself() {
    let mut rig = RelayRig::start_with_tokens(&["jobs:shop", "streams:shop:append", "read"]).await;
    for number in 0..3 {
        rig.sql(&outbox_row("queue:other/mail", Some("k"), &json!(number), None));
        rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(number), None));
    }
    rig.relay_with_token().await;
    rig.until_sql("SELECT count(*), min(destination) FROM fieldpost_outbox", "3|queue:other/mail").await;
    rig.sql(&outbox_row("queue:other/mail", Some("k"), &json!(3), None));
    rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(3), None));
    rig.until_sql("SELECT count(*), min(destination) FROM fieldpost_outbox", "4|queue:other/mail").await;
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0");
}

#[tokio::test]
async fn a_token_that_was_changed_is_read_again() {
    let mut rig = RelayRig::start_with_tokens(&["jobs:shop", "read"]).await;
    rig.sql(&outbox_row("queue:shop/mail", None, &json!(1), None));
    rig.relay_with_old_token().await;
    rig.until_log("401").await;
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox"), "1", "it waits");
    rig.rotate_token();
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
}

#[tokio::test]
async fn what_a_table_made_by_hand_lacks_is_told_with_the_command_that_adds_it() {
    let mut rig = RelayRig::start().await;
    rig.sql(
        "CREATE TABLE \"Mine\" (id bigint PRIMARY KEY, uid uuid, destination text, key text, \
         payload jsonb, attributes jsonb, created_at timestamptz);\n\
         INSERT INTO \"Mine\" VALUES (1, gen_random_uuid(), 'queue:shop/mail', NULL, '7', NULL, now());",
    );
    rig.relay(&["--table", "Mine"]).await;
    rig.until_log("no column reason, no table public.Mine_refused, no table public.Mine_state").await;
    rig.until_log("fieldpost relay sql --table public.Mine").await;
    let status = rig.run(&["status", "--table", "Mine", "--database", &rig.url()]);
    let told = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(status.status.code() == Some(1) && told.contains("no column reason"), "{told}");
    let nothing = rig.run(&["status", "--table", "none", "--database", &rig.url()]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there is no table public.none"));
    rig.sql(
        "INSERT INTO \"Mine\" VALUES (2, NULL, 'queue:shop/mail', NULL, '8'), \
         (3, gen_random_uuid(), NULL, NULL, '9'), (4, gen_random_uuid(), 'queue:shop/mail', NULL, NULL)",
    );
    rig.sql(&rig.printed(&["sql", "--table", "Mine"]));
    rig.until_sql("SELECT count(*) FROM \"Mine\"", "0").await;
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(7)]);
    let refused = "SELECT string_agg(reason, ' ' ORDER BY id) FROM \"Mine_refused\"";
    for code in ["invalid_uid", "invalid_destination", "invalid_payload"] {
        rig.until_sql(&format!("SELECT strpos(({refused}), '{code}') > 0"), "t").await;
    }
}

#[tokio::test]
async fn a_certificate_is_checked_where_that_is_asked_for() {
    let mut rig = RelayRig::start().await;
    rig.sql(&outbox_row("queue:shop/mail", None, &json!(1), None));
    let certificate = rig.folder().join("cert.pem");
    std::fs::copy(rig.postgres().certificate(), &certificate).expect("readable");
    let known = format!("{}?sslmode=verify-full&sslrootcert={}", rig.url(), certificate.display());
    rig.relay_at(&known).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    rig.kill_relay().await;
    rig.relay_at(&format!("{}?sslmode=verify-full", rig.url())).await;
    rig.until_log("certificate").await;
}
