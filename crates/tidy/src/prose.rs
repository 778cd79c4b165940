//! Markdown, as far as the rules need it: tables, headings, links and code spans, outside of fenced
//! code.

use std::collections::BTreeSet;

/// The lines that are not in a fence, with their numbers from 1.
pub fn plain_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let edge = line.trim_start().starts_with("```");
        fenced ^= edge;
        (!fenced && !edge).then_some((index + 1, line))
    })
}

/// The rows of the first table below a heading, head and rule left out, each as its trimmed cells.
#[must_use]
pub fn table_below(text: &str, heading: &str) -> Vec<Vec<String>> {
    let below = plain_lines(text).map(|(_, line)| line).skip_while(|line| !is_heading(line, heading)).skip(1);
    let table = below.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table.skip(2).map(cells).collect()
}

fn is_heading(line: &str, heading: &str) -> bool {
    line.starts_with('#') && line.trim_start_matches('#').trim() == heading
}

/// The trimmed cells of a row of a table.
pub(crate) fn cells(row: &str) -> Vec<String> {
    row.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// What stands between backticks.
#[must_use]
pub fn code_spans(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The targets of the links of a page, with their lines.
#[must_use]
pub fn links(text: &str) -> Vec<(usize, String)> {
    let of_line = |(number, line): (usize, &str)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| (number, target.to_owned())).collect::<Vec<_>>()
    };
    plain_lines(text).flat_map(of_line).collect()
}

/// The names under which the headings of a page can be linked to, as GitHub makes them.
#[must_use]
pub fn anchors(text: &str) -> BTreeSet<String> {
    let headings = plain_lines(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Who, and why\n\n| a | b |\n|---|---|\n| `x` | `y`, `z` |\n\n```sh\n# no heading\n```\n[l](other.md#at) [m](n)\n";

    #[test]
    fn a_table_is_read_by_its_heading() {
        assert_eq!(table_below(PAGE, "Who, and why"), [["`x`", "`y`, `z`"]]);
        assert_eq!(code_spans("`y`, `z`"), ["y".to_owned(), "z".to_owned()].into());
    }

    #[test]
    fn links_and_anchors_are_found_outside_of_code() {
        assert_eq!(links(PAGE), [(10, "other.md#at".to_owned()), (10, "n".to_owned())]);
        assert_eq!(anchors(PAGE), ["who-and-why".to_owned()].into());
    }
}
