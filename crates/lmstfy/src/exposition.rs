//! All figures as the admin API shows them: in the text form of Prometheus 0.0.4, or as OpenMetrics
//! for whoever asks for that.
//!
//! The figures come as OpenMetrics. The older form is the same but for a few lines: a counter's
//! family has the name that its samples have, units are not told, and there is no end mark.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use net::metrics::METRICS_TYPE;

/// The type that is answered unless something else is liked better.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text";

/// The content type and the text for whoever sends these headers.
pub(crate) fn accepted(headers: &HeaderMap, text: String) -> (&'static str, String) {
    if likes_open_metrics(headers) { (METRICS_TYPE, text) } else { (TEXT_TYPE, plain(&text)) }
}

/// Whether OpenMetrics is asked for by its name, and nothing that the text form is has a greater
/// weight.
fn likes_open_metrics(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (mut open, mut plain) = (0.0_f32, 0.0_f32);
    for range in ranges.flat_map(|text| text.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
        let Some(weight) = weight else { continue };
        if name.eq_ignore_ascii_case(OPEN_METRICS) {
            open = open.max(weight);
        } else if ["text/plain", "text/*", "*/*"].iter().any(|text| name.eq_ignore_ascii_case(text)) {
            plain = plain.max(weight);
        }
    }
    open > 0.0 && open >= plain
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
    fn the_form_is_text_unless_open_metrics_is_liked_as_much() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
             version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, open) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/json", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0, */*;q=0.1", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", false),
            (prometheus, true),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(likes_open_metrics(&headers), open, "{accept:?}");
        }
        assert!(!likes_open_metrics(&HeaderMap::new()));
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
