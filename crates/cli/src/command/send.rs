//! `fieldpost command send`: what a device is to do, and on which terms.

use std::time::Duration;

use base::duration;
use base::limits::COMMAND_WAIT_MAX;
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::TermFlags;
use super::view::CommandView;
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::input::json;
use crate::receiver::{GivenReceiver, ReceiverView};
use crate::screen::Screen;
use crate::table::plain;

#[derive(Args, Debug)]
pub struct SendCommand {
    /// The device.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// What it is told, as JSON: 1, '"open"', '{"open":1}'.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true, value_parser = json)]
    payload: Box<RawValue>,
    #[command(flatten)]
    terms: TermFlags,
    /// Publish how it ended as a job of this queue.
    #[arg(long, value_name = "NAMESPACE/QUEUE", group = "notify")]
    notify_queue: Option<String>,
    /// Post how it ended to this URL, signed.
    #[arg(long, value_name = "URL", group = "notify")]
    notify_url: Option<String>,
    /// Wait for its end for so long, up to 5m. Exit code: 0 when the device did it, 1 when not.
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    wait: Option<Duration>,
    /// Send only once, however often this is asked with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// A command on its way out.
#[derive(Serialize)]
struct CommandBody<'a> {
    payload: &'a RawValue,
    #[serde(flatten)]
    terms: &'a TermFlags,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<GivenReceiver<'a>>,
}

impl SendCommand {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = ApiPath::of(&["devices", &self.device, "commands"]);
        let path = path.with_maybe("wait", self.wait.map(duration::format));
        let key = self.idempotency_key.as_deref();
        let answer = api.post_and_wait(&path, &self.body(), key, self.wait.unwrap_or_default())?;
        if self.wait.is_none() {
            return screen.show(&answer, || sentence(api, &answer));
        }
        let command: CommandView = api.read(&answer)?;
        screen.show(&answer, || Ok(command.facts()))?;
        command.verdict()
    }

    fn body(&self) -> CommandBody<'_> {
        CommandBody {
            payload: &self.payload,
            terms: &self.terms,
            notify: GivenReceiver::of(self.notify_queue.as_deref(), self.notify_url.as_deref()),
        }
    }
}

/// What was answered at once, with the secret that is shown this once.
fn sentence(api: &ServerApi, answer: &RawValue) -> Result<String, CommandFailure> {
    #[derive(serde::Deserialize)]
    struct Sent {
        id: String,
        status: String,
        notify: Option<ReceiverView>,
    }
    let Sent { id, status, notify } = api.read(answer)?;
    let secret = notify.as_ref().map(ReceiverView::secret_once);
    Ok(format!("{} {}\n{}", plain(&id), plain(&status), secret.unwrap_or_default()))
}

fn wait(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text).map_err(|error| error.to_string())?;
    if span > COMMAND_WAIT_MAX {
        let most = duration::format(COMMAND_WAIT_MAX);
        return Err(format!("at most {most}; `fieldpost command watch` waits for as long as it takes"));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        send: SendCommand,
    }

    fn body(words: &[&str]) -> Option<String> {
        let words = ["test", "face7"].iter().chain(words);
        let line = Line::try_parse_from(words).ok()?;
        Some(serde_json::to_string(&line.send.body()).expect("a body has only names for keys"))
    }

    #[test]
    fn a_command_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&["-1"][..], Some(r#"{"payload":-1}"#)),
            (
                &[
                    r#"{"n": 1.50}"#,
                    "--ttl",
                    "1h",
                    "--key",
                    "door",
                    "--priority",
                    "-5",
                    "--notify-queue",
                    "ops/done",
                ],
                Some(
                    r#"{"payload":{"n": 1.50},"ttl":"1h","key":"door","priority":-5,"notify":{"queue":"ops/done"}}"#,
                ),
            ),
            (
                &[
                    "1",
                    "--max-attempts",
                    "3",
                    "--origin",
                    "ann",
                    "--notify-url",
                    "https://a.example/x",
                    "--wait",
                    "5m",
                ],
                Some(
                    r#"{"payload":1,"max_attempts":3,"origin":"ann","notify":{"url":"https://a.example/x"}}"#,
                ),
            ),
            (&["open"], None),
            (&["1", "--wait", "6m"], None),
            (&["1", "--notify-url", "http://a", "--notify-queue", "a/b"], None),
        ] {
            assert_eq!(body(words).as_deref(), expect, "{words:?}");
        }
    }
}
