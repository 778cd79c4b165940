//! Which call a method and a path are, and whether the names in it may be names.

use axum::http::Method;
use base::limits::{QUEUE_NAME_CHARS_MAX, QUEUES_PER_CONSUME_MAX};
use engine::queues::QueueName;

use crate::answer::LmstfyAnswer;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallTarget<'a> {
    pub(crate) namespace: &'a str,
    /// One queue, or for [`JobCall::Consume`] several with commas between.
    pub(crate) queue: &'a str,
    pub(crate) call: JobCall<'a>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobCall<'a> {
    Publish,
    Bulk,
    Republish(&'a str),
    Consume,
    Peek,
    Job(&'a str),
    Delete(&'a str),
    Destroy,
    Size,
    DeadHead,
    Respawn,
    DeleteDead,
    DeadSize,
}

/// What a call draws on of a token's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Produce,
    Consume,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

impl JobCall<'_> {
    /// The word for it in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Bulk => "bulk",
            Self::Republish(_) => "republish",
            Self::Consume => "consume",
            Self::Peek => "peek",
            Self::Job(_) => "job",
            Self::Delete(_) => "delete",
            Self::Destroy => "destroy",
            Self::Size => "size",
            Self::DeadHead => "dead_head",
            Self::Respawn => "respawn",
            Self::DeleteDead => "delete_dead",
            Self::DeadSize => "dead_size",
        }
    }

    /// What an operator changes with it; `None` for looks, and for work on jobs.
    pub(crate) fn change(self) -> Option<&'static str> {
        match self {
            Self::Destroy => Some("the jobs of a queue that can be consumed were deleted"),
            Self::Respawn => Some("dead letters were respawned"),
            Self::DeleteDead => Some("dead letters were deleted"),
            Self::Publish
            | Self::Bulk
            | Self::Republish(_)
            | Self::Consume
            | Self::Peek
            | Self::Job(_)
            | Self::Delete(_)
            | Self::Size
            | Self::DeadHead
            | Self::DeadSize => None,
        }
    }

    /// Sizes are told to everybody.
    pub(crate) fn takes_a_token(self) -> bool {
        !matches!(self, Self::Size | Self::DeadSize)
    }

    /// A job that is published again does not count.
    pub(crate) fn action(self) -> Option<Action> {
        match self {
            Self::Publish | Self::Bulk => Some(Action::Produce),
            Self::Consume => Some(Action::Consume),
            _ => None,
        }
    }
}

/// What a request is about, if there is such a call. `path` is decoded.
pub(crate) fn target<'a>(method: &Method, path: &'a str) -> Option<CallTarget<'a>> {
    let mut segments = path.strip_prefix("/api/")?.split('/');
    let (namespace, queue) = (segments.next()?, segments.next()?);
    let rest = [segments.next(), segments.next()];
    let call = match (method.as_str(), rest) {
        ("PUT", [None, None]) => JobCall::Publish,
        ("PUT", [Some("bulk"), None]) => JobCall::Bulk,
        ("PUT", [Some("job"), Some(id)]) => JobCall::Republish(id),
        ("PUT", [Some("deadletter"), None]) => JobCall::Respawn,
        ("GET", [None, None]) => JobCall::Consume,
        ("GET", [Some("peek"), None]) => JobCall::Peek,
        ("GET", [Some("job"), Some(id)]) => JobCall::Job(id),
        ("GET", [Some("size"), None]) => JobCall::Size,
        ("GET", [Some("deadletter"), None]) => JobCall::DeadHead,
        ("GET", [Some("deadletter"), Some("size")]) => JobCall::DeadSize,
        ("DELETE", [None, None]) => JobCall::Destroy,
        ("DELETE", [Some("job"), Some(id)]) => JobCall::Delete(id),
        ("DELETE", [Some("deadletter"), None]) => JobCall::DeleteDead,
        _ => return None,
    };
    let is_whole = segments.next().is_none() && !namespace.is_empty() && !queue.is_empty();
    (is_whole && rest[1] != Some("")).then_some(CallTarget { namespace, queue, call })
}

impl CallTarget<'_> {
    /// The queues, of which there is one unless jobs are consumed.
    ///
    /// Their names are those of the real server, which lets a namespace begin with `_`. A queue's
    /// name may not begin so when jobs are published. So nothing ever comes to a queue of such a
    /// name, but it may be asked for.
    ///
    /// # Errors
    /// 400 with what is wrong with a name.
    pub(crate) fn names(&self) -> Result<Vec<QueueName>, LmstfyAnswer> {
        let Self { namespace, queue, call } = *self;
        let several = call == JobCall::Consume;
        if !several && (namespace.len() > QUEUE_NAME_CHARS_MAX || queue.len() > QUEUE_NAME_CHARS_MAX) {
            return Err(LmstfyAnswer::bad("namespace or queue name too long"));
        }
        if !is_plain(namespace) {
            return Err(LmstfyAnswer::bad("namespace name contains forbidden characters"));
        }
        let is_one = |name| is_plain(name) && !name.starts_with('_');
        let fits = if several {
            queue.split(',').all(|name| name.is_empty() || is_plain(name))
        } else {
            is_one(queue)
        };
        if !fits {
            return Err(LmstfyAnswer::bad("queue name contains forbidden characters"));
        }
        if queue.split(',').count() > QUEUES_PER_CONSUME_MAX {
            return Err(LmstfyAnswer::bad("too many queues"));
        }
        let mut names = Vec::with_capacity(1);
        for name in queue.split(',').filter(|name| !name.is_empty()) {
            let name = QueueName::unchecked(namespace, name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Letters, digits, `-` and `_`, of any length: nothing can be published where a name is too long,
/// and nothing is there.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_and_a_path_are_one_call_or_none() {
        for (method, path, expect) in [
            ("PUT", "/api/n/q", Some(JobCall::Publish)),
            ("PUT", "/api/n/q/bulk", Some(JobCall::Bulk)),
            ("PUT", "/api/n/q/job/1", Some(JobCall::Republish("1"))),
            ("GET", "/api/n/q1,q2", Some(JobCall::Consume)),
            ("GET", "/api/n/q/peek", Some(JobCall::Peek)),
            ("GET", "/api/n/q/job/1", Some(JobCall::Job("1"))),
            ("DELETE", "/api/n/q/job/1", Some(JobCall::Delete("1"))),
            ("DELETE", "/api/n/q", Some(JobCall::Destroy)),
            ("GET", "/api/n/q/size", Some(JobCall::Size)),
            ("GET", "/api/n/q/deadletter", Some(JobCall::DeadHead)),
            ("PUT", "/api/n/q/deadletter", Some(JobCall::Respawn)),
            ("DELETE", "/api/n/q/deadletter", Some(JobCall::DeleteDead)),
            ("GET", "/api/n/q/deadletter/size", Some(JobCall::DeadSize)),
            ("POST", "/api/n/q", None),
            ("HEAD", "/api/n/q", None),
            ("PUT", "/api/n", None),
            ("PUT", "/api//q", None),
            ("PUT", "/api/n/", None),
            ("PUT", "/api/n/q/", None),
            ("PUT", "/api/n/q/job", None),
            ("PUT", "/api/n/q/job/", None),
            ("GET", "/api/n/q/job/1/2", None),
            ("GET", "/", None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(target(&method, path).map(|target| target.call), expect, "{method} {path}");
        }
    }

    #[test]
    fn names_are_refused_as_the_real_server_does() {
        let long = "n".repeat(256);
        let (too_long, namespace, queue) = (
            "namespace or queue name too long",
            "namespace name contains forbidden characters",
            "queue name contains forbidden characters",
        );
        for (call, of, name, expect) in [
            (JobCall::Publish, "_n", "q-1_", Ok(1)),
            (JobCall::Publish, "n", "_q", Err(queue)),
            (JobCall::Publish, "n", "q,r", Err(queue)),
            (JobCall::Publish, "n", "q r", Err(queue)),
            (JobCall::Publish, "n.", "_q", Err(namespace)),
            (JobCall::Publish, "n.", long.as_str(), Err(too_long)),
            (JobCall::Size, long.as_str(), "q", Err(too_long)),
            (JobCall::Consume, "n", "_q,r,,q,r", Ok(3)),
            (JobCall::Consume, "n", ",,", Ok(0)),
            (JobCall::Consume, "n", "q;r", Err(queue)),
            (JobCall::Consume, "n.", "q", Err(namespace)),
            (JobCall::Consume, long.as_str(), "q", Ok(1)),
        ] {
            let target = CallTarget { namespace: of, queue: name, call };
            let got = target.names().map(|names| names.len()).map_err(|answer| answer.body);
            let expect = expect.map_err(|text| format!("{{\"error\":\"{text}\"}}").into());
            assert_eq!(got, expect, "{target:?}");
        }
    }
}
