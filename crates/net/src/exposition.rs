//! All metrics in the form that the caller likes: the text form of Prometheus 0.0.4, or
//! OpenMetrics.
//!
//! The metrics come as OpenMetrics. The older form is the same but for a few lines. A counter's
//! family has the name that its samples have, units are not told, and there is no end mark.

use std::cmp::Ordering;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use crate::metrics::METRICS_TYPE;

/// The type of the older form.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text";

/// A form that metrics have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionForm {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The text form of Prometheus, 0.0.4.
    Text,
}

impl ExpositionForm {
    /// Its content type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => METRICS_TYPE,
            Self::Text => TEXT_TYPE,
        }
    }
}

/// The content type and the text for whoever sends these headers. The text comes as OpenMetrics;
/// `usual` is the form for those who like none better.
#[must_use]
pub fn accepted(headers: &HeaderMap, usual: ExpositionForm, text: String) -> (&'static str, String) {
    let form = liked(headers, usual);
    let text = match form {
        ExpositionForm::OpenMetrics => text,
        ExpositionForm::Text => plain(&text),
    };
    (form.content_type(), text)
}

/// The form with the greater weight. Of equal ones it is the one that is asked for by its name, and
/// OpenMetrics where both are. `*/*` is whatever is usual.
fn liked(headers: &HeaderMap, usual: ExpositionForm) -> ExpositionForm {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    // Each with whether it was named.
    let (mut open, mut plain) = ((0.0_f32, false), (0.0_f32, false));
    for range in ranges.flat_map(|text| text.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0_f32), |q| q.parse().ok());
        let Some(weight) = weight.filter(|weight| *weight > 0.0) else { continue };
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let (best, is_named) = match usual {
            _ if is(OPEN_METRICS) => (&mut open, true),
            _ if is("text/plain") => (&mut plain, true),
            _ if is("text/*") => (&mut plain, false),
            ExpositionForm::OpenMetrics if is("*/*") => (&mut open, false),
            ExpositionForm::Text if is("*/*") => (&mut plain, false),
            _ => continue,
        };
        if *best < (weight, is_named) {
            *best = (weight, is_named);
        }
    }
    match open.partial_cmp(&plain) {
        Some(Ordering::Greater) => ExpositionForm::OpenMetrics,
        Some(Ordering::Less) => ExpositionForm::Text,
        _ if open.1 => ExpositionForm::OpenMetrics,
        _ => usual,
    }
}

/// OpenMetrics text in the older form.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + text.len() / 16);
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let Some(comment) = line.strip_prefix("# ") else {
            plain.push_str(line);
            continue;
        };
        let (word, rest) = comment.trim_end_matches('\n').split_once(' ').unwrap_or((comment, ""));
        let (name, told) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            // The type of a family, which says what its name is, comes behind its help.
            "HELP" => {
                let of_it =
                    |line: &&str| line.strip_prefix("# TYPE ").is_some_and(|rest| rest.starts_with(name));
                let kind = lines.peek().filter(|line| of_it(line)).and_then(|line| line.split(' ').nth(3));
                let name = family(name, kind.unwrap_or_default().trim_end());
                add(&mut plain, &["# HELP ", &name, " ", told, "\n"]);
            }
            "TYPE" => {
                let kind = match told {
                    "unknown" => "untyped",
                    "info" | "stateset" => "gauge",
                    told => told,
                };
                add(&mut plain, &["# TYPE ", &family(name, told), " ", kind, "\n"]);
            }
            _ => {}
        }
    }
    plain
}

/// The name of a family, as its samples have it.
fn family(name: &str, kind: &str) -> String {
    let suffix = match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    format!("{name}{suffix}")
}

fn add(text: &mut String, parts: &[&str]) {
    text.extend(parts.iter().copied());
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_form_is_the_one_that_is_liked_best_and_else_the_usual_one() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
             version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        // The form where text is usual, and where OpenMetrics is; true for OpenMetrics.
        for (accept, expect) in [
            ("", (false, true)),
            ("*/*", (false, true)),
            ("application/json", (false, true)),
            ("application/openmetrics-text;q=0", (false, true)),
            ("application/openmetrics-text;q=x", (false, true)),
            ("text/plain", (false, false)),
            ("text/plain;version=0.0.4", (false, false)),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", (false, false)),
            ("application/json, text/plain, */*", (false, false)),
            ("text/*", (false, false)),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", (false, false)),
            ("application/openmetrics-text", (true, true)),
            ("application/openmetrics-text, text/plain", (true, true)),
            ("application/openmetrics-text, */*", (true, true)),
            ("Application/OpenMetrics-Text; version=1.0.0, */*;q=0.1", (true, true)),
            (prometheus, (true, true)),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            let is_open = |usual| liked(&headers, usual) == ExpositionForm::OpenMetrics;
            let found = (is_open(ExpositionForm::Text), is_open(ExpositionForm::OpenMetrics));
            assert_eq!(found, expect, "{accept:?}");
        }
        assert_eq!(liked(&HeaderMap::new(), ExpositionForm::Text), ExpositionForm::Text);
        assert_eq!(liked(&HeaderMap::new(), ExpositionForm::OpenMetrics), ExpositionForm::OpenMetrics);
    }

    #[test]
    fn families_have_the_names_of_their_samples() {
        let text = "# HELP a_jobs Jobs, by how.\n# TYPE a_jobs counter\na_jobs_total{how=\"x\"} 2\n\
             # HELP a_took_seconds How long.\n# TYPE a_took_seconds histogram\n# UNIT a_took_seconds seconds\n\
             a_took_seconds_sum 0.5\na_took_seconds_bucket{le=\"+Inf\"} 1\n\
             # HELP a_build The build.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
             # HELP a_open Open.\n# TYPE a_open gauge\na_open 3\n\
             # HELP a_any Any.\n# TYPE a_any unknown\na_any 3\n# EOF\n";
        let expect = "# HELP a_jobs_total Jobs, by how.\n# TYPE a_jobs_total counter\na_jobs_total{how=\"x\"} 2\n\
             # HELP a_took_seconds How long.\n# TYPE a_took_seconds histogram\n\
             a_took_seconds_sum 0.5\na_took_seconds_bucket{le=\"+Inf\"} 1\n\
             # HELP a_build_info The build.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
             # HELP a_open Open.\n# TYPE a_open gauge\na_open 3\n\
             # HELP a_any Any.\n# TYPE a_any untyped\na_any 3\n";
        assert_eq!(plain(text), expect);
    }
}
