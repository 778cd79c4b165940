//! `fieldpost task run`: what devices are asked, and which of them.

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::view::TaskView;
use super::watch::TaskWatch;
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::input::json;
use crate::pick_terms::PickFlags;
use crate::receiver::GivenReceiver;
use crate::screen::Screen;

#[derive(Args, Debug)]
pub struct RunTask {
    /// What each device is asked, as JSON: 1, '"ping"', '{"probe":"dns"}'.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true, value_parser = json)]
    payload: Box<RawValue>,
    #[command(flatten)]
    picks: PickFlags,
    /// How long devices that drop out are replaced by others; 30s if left out.
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Publish its end as a job of this queue.
    #[arg(long, value_name = "NAMESPACE/QUEUE", group = "notify")]
    notify_queue: Option<String>,
    /// Post its end to this URL, signed.
    #[arg(long, value_name = "URL", group = "notify")]
    notify_url: Option<String>,
    /// Ask only once, however often this is called with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Return once the task is durable, without its results.
    #[arg(long, conflicts_with = "max_failed")]
    no_wait: bool,
    #[command(flatten)]
    watch: TaskWatch,
}

/// A task on its way to the server.
#[derive(Serialize)]
struct TaskBody<'a> {
    payload: &'a RawValue,
    #[serde(flatten)]
    picks: &'a PickFlags,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<GivenReceiver<'a>>,
}

impl RunTask {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let key = self.idempotency_key.as_deref();
        let begun = api.post_once(&ApiPath::of(&["tasks"]), &self.body(), key)?;
        let task: TaskView = api.read(&begun)?;
        if self.no_wait {
            return screen.show(&begun, || Ok(task.facts() + &task.secret_once()));
        }
        task.show_line(&begun, screen)?;
        screen.tell(&task.secret_once())?;
        screen.flush()?;
        self.watch.follow(&task.id, api, screen)
    }

    fn body(&self) -> TaskBody<'_> {
        TaskBody {
            payload: &self.payload,
            picks: &self.picks,
            deadline: self.deadline.as_deref(),
            notify: GivenReceiver::of(self.notify_queue.as_deref(), self.notify_url.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunTask,
    }

    fn body(line: &str) -> Option<String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(line.split_whitespace())).ok()?;
        Some(serde_json::to_string(&line.run.body()).expect("a body has only names for keys"))
    }

    #[test]
    fn a_task_says_what_was_given_and_nothing_else() {
        for (line, expect) in [
            ("1.50 --count 3", Some(r#"{"payload":1.50,"count":3}"#)),
            (
                "1 --count 100 --place CN_52 --answer-timeout 5s --deadline 20s --class large --no-wait",
                Some(
                    r#"{"payload":1,"count":100,"place":"CN_52","answer_timeout":"5s","class":"large","deadline":"20s"}"#,
                ),
            ),
            (
                "1 --count 2 --device a --device b --exclude kind=lock --not-as tsk_1 --spread-by operator",
                Some(
                    r#"{"payload":1,"count":2,"devices":["a","b"],"exclude":"kind=lock","not_as":"tsk_1","spread_by":"operator"}"#,
                ),
            ),
            (
                "1 --count 1 --selector a --same-as tsk_1 --notify-queue ops/done",
                Some(
                    r#"{"payload":1,"count":1,"selector":"a","same_as":"tsk_1","notify":{"queue":"ops/done"}}"#,
                ),
            ),
            ("1", None),
            ("1 --count 0", None),
            ("ping --count 1", None),
            ("1 --count 1 --same-as tsk_1 --not-as tsk_2", None),
            ("1 --count 1 --notify-url http://a --notify-queue a/b", None),
            ("1 --count 1 --no-wait --max-failed 1", None),
        ] {
            assert_eq!(body(line).as_deref(), expect, "{line}");
        }
    }
}
