//! What people read in Rust files and on pages: comment lines, paragraphs, cells of tables,
//! sentences.

use crate::prose;

/// A line of text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The line it begins on, from 1.
    pub line: usize,
    /// Its words.
    pub words: Vec<String>,
}

/// The lines of a Rust file that are comments, as they stand in the file, with their numbers
/// from 1.
pub fn comment_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line)).filter(|(_, line)| is_comment(line))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// The sentences of the comments of a Rust file. Headings and examples are no sentences.
#[must_use]
pub fn sentences_of_comments(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    for (index, line) in text.lines().enumerate() {
        if is_comment(line) {
            paragraphs.line(index + 1, line.trim_start().trim_start_matches(['/', '!']).trim());
        } else {
            paragraphs.end();
        }
    }
    paragraphs.sentences()
}

/// The sentences of a page.
#[must_use]
pub fn sentences_of_page(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    let mut next = 1;
    for (number, line) in prose::plain_lines(text) {
        if number > next {
            paragraphs.end();
        }
        next = number + 1;
        paragraphs.line(number, line.trim());
    }
    paragraphs.sentences()
}

/// Gathers lines into paragraphs.
#[derive(Default)]
struct Paragraphs {
    done: Vec<Vec<(usize, String)>>,
    open: Vec<(usize, String)>,
    fenced: bool,
}

impl Paragraphs {
    fn line(&mut self, number: usize, line: &str) {
        let is_fence = line.starts_with("```");
        self.fenced ^= is_fence;
        let begins_anew = line.starts_with(['|', '#', '>']) || is_item(line);
        if line.is_empty() || is_fence || self.fenced || begins_anew {
            self.end();
        }
        if line.is_empty() || is_fence || self.fenced || line.starts_with('#') {
            return;
        }
        if line.starts_with('|') {
            for cell in prose::cells(line) {
                self.words(number, &cell);
                self.end();
            }
        } else {
            self.words(number, line);
        }
    }

    fn words(&mut self, number: usize, text: &str) {
        self.open.extend(text.split_whitespace().map(|word| (number, word.to_owned())));
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
    }

    fn sentences(mut self) -> Vec<Sentence> {
        self.end();
        let mut sentences = Vec::new();
        for paragraph in self.done {
            let mut open: Option<Sentence> = None;
            for (line, word) in paragraph {
                let ends = ends_sentence(&word);
                open.get_or_insert_with(|| Sentence { line, words: Vec::new() }).words.push(word);
                if ends {
                    sentences.extend(open.take());
                }
            }
            sentences.extend(open);
        }
        sentences
    }
}

/// A point of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (number.len() < line.len() && number.starts_with(". "))
}

/// A semicolon does not end a sentence. A colon does only before a list or an example, and there
/// the paragraph ends anyway.
fn ends_sentence(word: &str) -> bool {
    word.trim_end_matches([')', '"', '*', '_', '`']).ends_with(['.', '?', '!'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sentences: &[Sentence]) -> Vec<(usize, String)> {
        sentences.iter().map(|sentence| (sentence.line, sentence.words.join(" "))).collect()
    }

    #[test]
    fn comments_are_read_in_sentences_across_lines() {
        let text =
            "//! One. Two goes\n//! on; three:\n//! - four\nfn f() {} // not this\n/// Five\n// six?\n";
        let expected = [(1, "One."), (1, "Two goes on; three:"), (3, "- four"), (5, "Five six?")];
        assert_eq!(shown(&sentences_of_comments(text)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn neither_a_semicolon_nor_a_colon_ends_a_sentence_within_a_paragraph() {
        let text = "One; two: three.\nFour:\n- five; six\n\nSeven: `eight`!\n";
        let expected = [(1, "One; two: three."), (2, "Four:"), (3, "- five; six"), (5, "Seven: `eight`!")];
        assert_eq!(shown(&sentences_of_page(text)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_cell_of_a_table_is_read_as_a_paragraph() {
        let expected = [(1, "one"), (1, "two; three"), (3, "four."), (3, "Five"), (3, "six"), (4, "seven")];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        let told = |sentences: &[Sentence]| {
            let mut told = shown(sentences);
            told.retain(|(_, text)| text != "---");
            told
        };
        let page = "| one | two; three |\n| --- | --- |\n| four. Five | six |\nseven\n";
        assert_eq!(told(&sentences_of_page(page)), expected);
        let comment = "/// | one | two; three |\n/// | --- | --- |\n/// | four. Five | six |\n/// seven\n";
        assert_eq!(told(&sentences_of_comments(comment)), expected);
    }

    #[test]
    fn pages_are_read_without_headings_and_code() {
        let text = "# Head. Line\nOne (two).\nThree\n```sh\nfour. five.\n```\n1. six\n2. seven\n";
        let expected = [(2, "One (two)."), (3, "Three"), (7, "1."), (7, "six"), (8, "2."), (8, "seven")];
        assert_eq!(shown(&sentences_of_page(text)), expected.map(|(line, text)| (line, text.to_owned())));
    }
}
