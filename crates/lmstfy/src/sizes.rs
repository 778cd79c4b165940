//! Sizes of queues under the names that the real server gives them, so that dashboards and alerts
//! that were made for it go on.
//!
//! They are shown by the admin API alone: labels there grow with the queues, which the metrics of
//! the REST API never do.

use std::fmt::Write;

use base::Problem;
use engine::queues::{QueueCalls, QueueStats};

use crate::POOL;

/// Most queues that are shown.
const QUEUES_MAX: usize = 1_000;
/// Queues that are read at a time.
const STEP: usize = 1_000;
/// How OpenMetrics text ends.
const END: &str = "# EOF\n";

/// The first queues in order of namespace and name, at most so many.
pub(crate) async fn first_queues(queues: &QueueCalls, most: usize) -> Result<Vec<QueueStats>, Problem> {
    let mut all: Vec<QueueStats> = Vec::new();
    while all.len() < most {
        let step = STEP.min(most - all.len());
        let page = queues.list(None, all.last().map(|stats| &stats.name), step).await?;
        let is_last = page.len() < step;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// Adds the sizes to the text of all metrics.
pub(crate) async fn add(text: &mut String, queues: &QueueCalls) -> Result<(), Problem> {
    let queues = first_queues(queues, QUEUES_MAX).await?;
    text.truncate(text.strip_suffix(END).map_or(text.len(), str::len));
    write(text, "queue_sizes", "Jobs of a queue that can be consumed", &queues, |stats| stats.ready);
    write(text, "deadletter_sizes", "Dead jobs of a queue", &queues, |stats| stats.dead);
    text.push_str(END);
    Ok(())
}

/// One metric of all queues; names are plain characters.
fn write(
    text: &mut String,
    name: &str,
    help: &str,
    queues: &[QueueStats],
    size: impl Fn(&QueueStats) -> u64,
) {
    let name = format!("infra_lmstfy_redis_{name}");
    let mut add = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("a String takes every write");
    add(format_args!("# HELP {name} {help}.\n# TYPE {name} gauge\n"));
    for stats in queues {
        let (namespace, queue) = (stats.name.namespace(), stats.name.queue());
        let labels = format_args!("pool=\"{POOL}\",namespace=\"{namespace}\",queue=\"{queue}\"");
        add(format_args!("{name}{{{labels}}} {}\n", size(stats)));
    }
}

#[cfg(test)]
mod tests {
    use engine::queues::QueueName;

    use super::*;

    #[test]
    fn a_size_has_the_name_and_the_labels_of_the_real_server() {
        let stats = QueueStats { ready: 7, dead: 2, ..QueueStats::empty(QueueName::unchecked("ns", "q-1")) };
        let mut text = String::new();
        write(&mut text, "queue_sizes", "Jobs", &[stats], |stats| stats.ready);
        let expect = "# HELP infra_lmstfy_redis_queue_sizes Jobs.\n# TYPE infra_lmstfy_redis_queue_sizes gauge\n\
             infra_lmstfy_redis_queue_sizes{pool=\"default\",namespace=\"ns\",queue=\"q-1\"} 7\n";
        assert_eq!(text, expect);
    }
}
