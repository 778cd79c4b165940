//! Queues and jobs from the shell: the life of a job, what is set for its queue, and commands that
//! work on jobs.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::cli::rig::{Ended, PATIENCE, Rig, program, run};
use crate::wire;

const ADD: &str = "job publish shop mail";

fn words(rig: &Rig, words: &[&str]) -> Ended {
    run(rig.url(), words, "")
}

/// The texts of a field of each line.
fn texts(lines: &[Value], field: &str) -> Vec<String> {
    lines.iter().map(|line| line[field].as_str().expect("a text").to_owned()).collect()
}

/// Publishes a job and tells its id.
fn publish(rig: &Rig, flags: &str) -> String {
    rig.json(&format!("{ADD} {flags}"))[0]["jobs"][0]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_job_is_published_taken_and_acknowledged() {
    let rig = Rig::start(&[]).await;
    let told = rig.out(&format!(r#"{ADD} --payload {{"to":"ann","n":1.50}} --tries 2 --alias basket"#));
    assert!(told.contains(" is due at 20"), "{told}");
    let job = &rig.json("job consume shop mail --ttr 10m")[0];
    assert_eq!((&job["alias"], &job["attempt"], &job["tries"]), (&json!("basket"), &json!(1), &json!(2)));
    let [id, reservation] = ["id", "reservation"].map(|field| job[field].as_str().expect("a text"));
    rig.out(&format!("job extend shop mail {id} {reservation} --ttr 5m"));
    assert_eq!(rig.out(&format!("job ack shop mail {reservation}")), "1 acknowledged\n");
    let again = rig.run(&format!("job ack shop mail {reservation}"));
    assert_eq!((again.code, again.out.lines().count()), (Some(1), 2), "{again:?}");
    let none = rig.run("job consume shop mail");
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (Some(0), "", "no jobs\n"));
}

#[tokio::test]
async fn a_payload_is_a_value_a_file_or_bytes_and_comes_as_it_was() {
    let rig = Rig::start(&[]).await;
    publish(&rig, r#"--payload {"n":1.50}"#);
    publish(&rig, "");
    let from_stdin = rig.run_with(&format!("{ADD} --file -"), "[1,\n2]\n");
    assert_eq!(from_stdin.code, Some(0), "{from_stdin:?}");
    assert_eq!(rig.run_with(&format!("{ADD} --file - --bytes"), "plain").code, Some(0));
    let wrong = rig.run_with(&format!("{ADD} --file -"), "plain");
    assert!(wrong.code == Some(2) && wrong.err.contains("--bytes"), "{wrong:?}");
    let table = rig.out("job consume shop mail --max 10 --ack");
    let payloads: Vec<_> =
        table.lines().skip(1).map(|line| line.rsplit("  ").next().expect("a column")).collect();
    assert_eq!(payloads, [r#"{"n":1.50}"#, "null", "[1,2]", "base64:cGxhaW4="]);
    assert_eq!(rig.json("queue stats shop mail")[0]["reserved"], 0, "they were acknowledged");
}

#[tokio::test]
async fn nothing_is_read_that_was_not_named_and_a_payload_has_its_flag() {
    let rig = Rig::start(&[]).await;
    // In a loop over lines these are what is piped in.
    assert_eq!(rig.run_with(ADD, "2\n").code, Some(0));
    assert_eq!(rig.run_with("stream append shop orders", "3\n").code, Some(0));
    for line in [ADD, "stream append shop orders"] {
        let misplaced = rig.run(&format!("{line} {{\"n\":1}}"));
        assert!(misplaced.code == Some(2) && misplaced.err.contains("--payload"), "{misplaced:?}");
    }
    let jobs = rig.json("job ls shop mail");
    assert_eq!(jobs.iter().map(|job| &job["payload"]).collect::<Vec<_>>(), [&json!(null)]);
    assert_eq!(rig.json("stream read shop orders")[0]["payload"], json!(null));
}

#[tokio::test]
async fn a_waiting_job_is_shown_changed_listed_and_cancelled() {
    let rig = Rig::start(&[]).await;
    let id = publish(&rig, "--payload 1 --delay 1h --alias a --group g");
    publish(&rig, "--payload 2");
    assert!(rig.out(&format!("job show shop mail {id}")).contains("state      scheduled\n"));
    let changed = rig.json("job change shop mail --alias a --payload 3 --run-at 2035-01-01T00:00:00Z");
    assert_eq!(
        (&changed[0]["payload"], &changed[0]["run_at"]),
        (&json!(3), &json!("2035-01-01T00:00:00.000Z"))
    );
    for (flags, count) in [("", 2), ("--state scheduled", 1), ("--state ready", 1), ("--state reserved", 0)] {
        assert_eq!(rig.json(&format!("job ls shop mail {flags}")).len(), count, "{flags}");
    }
    assert!(rig.out("job ls shop mail").starts_with("ID "));
    assert_eq!(rig.out("job cancel shop mail --alias a"), "a cancelled\n");
    let gone = rig.run(&format!("job show shop mail {id}"));
    assert!(gone.code == Some(1) && gone.err.contains("404 unknown_job"), "{gone:?}");
}

#[tokio::test]
async fn a_recurring_job_shows_its_schedule() {
    let rig = Rig::start(&[]).await;
    for (schedule, expect) in [
        (
            &["--cron", "0 9 * * 1", "--tz", "Europe/Berlin", "--executions", "3"][..],
            "cron        0 9 * * 1\nzone        Europe/Berlin\nexecutions  3 left\n",
        ),
        (&["--every", "90m"], "every       1h30m\nexecutions  no end\n"),
    ] {
        let publish: Vec<_> = ADD.split(' ').chain(schedule.iter().copied()).collect();
        let published = words(&rig, &publish);
        assert_eq!(published.code, Some(0), "{published:?}");
        let id = published.out.split(' ').next().expect("an id");
        let shown = rig.out(&format!("job show shop mail {id}"));
        assert!(shown.ends_with(expect), "{shown}");
    }
}

#[tokio::test]
async fn one_key_publishes_one_job() {
    let rig = Rig::start(&[]).await;
    let first = publish(&rig, "--payload 1 --idempotency-key k1");
    assert_eq!(publish(&rig, "--payload 1 --idempotency-key k1"), first);
    let other = rig.run(&format!("{ADD} --payload 2 --idempotency-key k1"));
    assert!(other.code == Some(1) && other.err.contains("422 idempotency_key_reused"), "{other:?}");
    assert_eq!(rig.json("job ls shop mail").len(), 1);
}

#[tokio::test]
async fn jobs_that_died_are_listed_respawned_and_dropped() {
    let rig = Rig::start(&[]).await;
    for _ in 0..2 {
        publish(&rig, "--payload 1");
    }
    for job in rig.json("job consume shop mail --max 2") {
        let [id, reservation] = ["id", "reservation"].map(|field| job[field].as_str().expect("a text"));
        let release = ["job", "release", "shop", "mail", id, reservation, "--error", "no paper"];
        assert_eq!(words(&rig, &release).code, Some(0));
    }
    let dead = rig.out("queue dead shop mail");
    assert_eq!(dead.matches("released  no paper").count(), 2, "{dead}");
    let id = texts(&rig.json("queue dead shop mail"), "id").remove(0);
    assert_eq!(rig.out(&format!("queue respawn shop mail {id}")), "1 to be tried again\n");
    assert_eq!(rig.json("queue respawn shop mail --oldest 10")[0], json!({ "respawned": 1 }));
    rig.out("queue clear-dead shop mail");
    assert_eq!(rig.run("queue dead shop mail").err, "no dead jobs\n");
    assert_eq!(rig.json("queue stats shop mail")[0]["ready"], 2);
}

#[tokio::test]
async fn what_is_set_for_a_queue_stays_until_it_is_changed() {
    let rig = Rig::start(&[]).await;
    rig.out("queue set shop mail --concurrency 4 --rate 0.5 --dead-max-age 7d");
    rig.out("queue set shop mail --order lifo --no-rate");
    let settings = rig.json("queue stats shop mail")[0]["settings"].clone();
    let expect = json!({ "order": "lifo", "concurrency": 4, "rate": null, "jobs_max": null, "dead_max": null, "dead_max_age": "7d" });
    assert_eq!(settings, expect);
    let refused = rig.run("queue set shop mail --concurrency 0");
    assert!(refused.code == Some(1) && refused.err.contains("concurrency"), "{refused:?}");
    rig.out("queue pause shop mail");
    publish(&rig, "--payload 1");
    assert_eq!(rig.run("job consume shop mail").err, "no jobs\n");
    assert!(rig.out("queue ls --namespace shop").contains("no, paused"));
    assert_eq!(rig.run("queue ls --namespace other").err, "no queues\n");
    rig.out("queue resume shop mail");
    assert_eq!(rig.json("job consume shop mail --wait 5s").len(), 1);
    rig.out("queue delete shop mail");
    assert_eq!(rig.run("queue ls").err, "no queues\n");
}

#[tokio::test]
async fn a_command_is_run_for_each_job_with_the_payload_as_its_input() {
    let rig = Rig::start(&[]).await;
    let ids = ["--payload \"one\" --alias a", "--payload \"two\""].map(|flags| publish(&rig, flags));
    let script = "cat; echo \" $FIELDPOST_JOB_ID $FIELDPOST_JOB_QUEUE $FIELDPOST_JOB_ATTEMPT/$FIELDPOST_JOB_TRIES$FIELDPOST_JOB_ALIAS\"";
    let worked = words(&rig, &["job", "work", "shop", "mail", "--drain", "--", "sh", "-c", script]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    assert_eq!(worked.out, format!("\"one\" {} mail 1/1a\n\"two\" {} mail 1/1\n", ids[0], ids[1]));
    assert_eq!(worked.err, format!("{} done\n{} done\n", ids[0], ids[1]));
    assert_eq!(rig.run("queue ls").err, "no queues\n");
}

#[tokio::test]
async fn a_command_that_fails_gives_its_job_back_with_what_it_said_last() {
    let rig = Rig::start(&[]).await;
    let id = publish(&rig, "--payload 1");
    let script = "echo trying >&2; echo no paper >&2; exit 3";
    let worked = words(&rig, &["job", "work", "shop", "mail", "--drain", "--", "sh", "-c", script]);
    assert_eq!(worked.code, Some(1), "a script that empties a queue has to notice: {worked:?}");
    assert!(worked.err.starts_with("trying\nno paper\n"), "{worked:?}");
    assert!(worked.err.contains(&format!("{id} failed: no paper; that was its last try\n")), "{worked:?}");
    let dead = &rig.json("queue dead shop mail")[0];
    assert_eq!(dead["error"], "exit status: 3: trying\nno paper");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_costs_no_job() {
    let rig = Rig::start(&[]).await;
    let stands = || {
        let stats = &rig.json("queue stats shop mail")[0];
        ["ready", "reserved", "dead"].map(|field| stats[field].as_u64().expect("a number"))
    };
    for _ in 0..20 {
        publish(&rig, "--payload 1");
    }
    let worked = words(&rig, &["job", "work", "shop", "mail", "--drain", "--", "no-such-program"]);
    assert_eq!(worked.code, Some(2), "{worked:?}");
    assert!(worked.err.contains("no-such-program cannot be started"), "{worked:?}");
    assert_eq!(stands(), [20, 0, 0], "no job was taken");
    // It takes itself away with its first job.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("once");
    std::fs::write(&program, "#!/bin/sh\nrm \"$0\"\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("set");
    let once = program.display().to_string();
    let worked = words(&rig, &["job", "work", "shop", "mail", "--", &once]);
    assert_eq!(worked.code, Some(1), "{worked:?}");
    assert!(worked.err.contains("once cannot be started"), "{worked:?}");
    assert_eq!(stands(), [19, 0, 0], "the job was given back: {worked:?}");
}

#[tokio::test]
async fn an_alias_that_no_environment_can_hold_stops_no_worker() {
    let rig = Rig::start(&[]).await;
    publish(&rig, r#"--payload "other" --alias other"#);
    let jobs = json!({ "jobs": [{ "payload": "odd", "alias": "a\0b" }] }).to_string();
    let address = rig.url().strip_prefix("http://").and_then(|address| address.parse().ok());
    let (address, path) = (address.expect("an address"), "/v1/queues/shop/mail/jobs");
    let published = wire::ask(address, "POST", path, &[], jobs.as_bytes()).await;
    assert_eq!(published.status, 201, "{published:?}");
    let script = "echo \"$(cat) ${FIELDPOST_JOB_ALIAS-none}\"";
    let worked = words(&rig, &["job", "work", "shop", "mail", "--drain", "--", "sh", "-c", script]);
    assert_eq!(
        (worked.code, worked.out.as_str()),
        (Some(0), "\"other\" other\n\"odd\" none\n"),
        "{worked:?}"
    );
    assert_eq!(rig.run("queue ls").err, "no queues\n");
}

/// `fieldpost job work`, read line by line.
struct Working {
    child: Child,
    err: Lines<BufReader<Box<dyn AsyncRead + Unpin>>>,
}

impl Working {
    fn start(rig: &Rig, arguments: &[&str]) -> Self {
        let mut command = Command::from(program(rig.url()));
        command.args(["job", "work", "shop", "mail", "--json"]).args(arguments).kill_on_drop(true);
        let mut child = command.spawn().expect("it runs");
        let err: Box<dyn AsyncRead + Unpin> = Box::new(child.stderr.take().expect("it is a pipe"));
        Self { child, err: BufReader::new(err).lines() }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.err.next_line()).await.expect("it tells in time").expect("text");
        serde_json::from_str(&line.expect("it goes on")).expect("a line is JSON")
    }

    async fn interrupt(&self) {
        let id = self.child.id().expect("it runs").to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status().await;
        assert!(killed.expect("kill is there").success());
    }

    async fn ends(mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").expect("it ran").code()
    }
}

#[tokio::test]
async fn an_interrupted_worker_lets_its_command_end_and_takes_no_other_job() {
    let rig = Rig::start(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().expect("mkfifo is there").success());
    let first = publish(&rig, "--payload 1");
    let script = format!("read -r go < {}", gate.display());
    let mut working = Working::start(&rig, &["--", "sh", "-c", &script]);
    assert_eq!(working.next().await, json!({ "event": "begun", "id": first, "queue": "mail", "attempt": 1 }));
    publish(&rig, "--payload 2");
    working.interrupt().await;
    assert_eq!(working.next().await, json!({ "event": "stopping", "running": 1 }));
    // Opening waits for the command to read.
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go\n"))
        .await
        .expect("written")
        .expect("written");
    assert_eq!(working.next().await, json!({ "event": "done", "id": first, "queue": "mail" }));
    assert_eq!(working.ends().await, Some(0));
    let stats = &rig.json("queue stats shop mail")[0];
    assert_eq!((&stats["ready"], &stats["reserved"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn a_command_whose_job_was_cancelled_is_killed() {
    let rig = Rig::start(&[]).await;
    let id = publish(&rig, "--payload 1");
    // Its next extension, after a third of that, is refused.
    let mut working = Working::start(&rig, &["--ttr", "9s", "--", "tail", "-f", "/dev/null"]);
    assert_eq!(working.next().await["event"], "begun");
    rig.out(&format!("job cancel shop mail {id}"));
    assert_eq!(working.next().await, json!({ "event": "lost", "id": id, "queue": "mail" }));
    working.interrupt().await;
    assert_eq!(working.next().await["event"], "stopping");
    assert_eq!(working.ends().await, Some(0));
}

#[tokio::test]
async fn a_worker_that_may_not_work_says_why() {
    let rig = Rig::start(&[]).await;
    let refused = words(&rig, &["job", "work", "shop", "_own", "--", "cat"]);
    assert!(refused.code == Some(1) && refused.err.contains("422 reserved_name"), "{refused:?}");
    let nothing = words(&rig, &["job", "work", "shop", "mail"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}
