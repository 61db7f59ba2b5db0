//! Tables for the terminal.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wider values of users' tables are cut: a table is for a glance, `--format csv` or `--json` for all of it.
#[cfg(feature = "text")]
const DATA_WIDTH: usize = 60;
/// The same for our own words.
const WORDS_WIDTH: usize = 100;

/// A table of text that prints with aligned columns.
pub struct Table {
    headings: Vec<Heading>,
    cell_width: usize,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    is_begun: bool,
}

struct Heading {
    text: String,
    numeric: bool,
}

impl Table {
    /// A table with these headings. Columns whose heading begins with `>` are aligned to the right; the sign isn't printed.
    pub fn new(headings: &[&str]) -> Self {
        let headings: Vec<Heading> = headings
            .iter()
            .map(|heading| match heading.strip_prefix('>') {
                Some(text) => Heading { text: text.to_owned(), numeric: true },
                None => Heading { text: (*heading).to_owned(), numeric: false },
            })
            .collect();
        Self::of(headings, WORDS_WIDTH)
    }

    /// A table whose headings come from data: nothing in them is taken for a sign.
    #[cfg(feature = "text")]
    pub fn with_columns(columns: impl IntoIterator<Item = (String, bool)>) -> Self {
        let headings = columns.into_iter().map(|(text, numeric)| Heading { text: printable(&text), numeric }).collect();
        Self::of(headings, DATA_WIDTH)
    }

    fn of(headings: Vec<Heading>, cell_width: usize) -> Self {
        let widths = headings.iter().map(|heading| heading.text.width()).collect();
        Table { headings, cell_width, widths, rows: Vec::new(), is_begun: false }
    }

    /// Appends a row; missing cells stay empty.
    pub fn row(&mut self, cells: Vec<String>) {
        let cells: Vec<String> = cells.iter().map(|cell| cut(cell, self.cell_width)).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width());
        }
        self.rows.push(cells);
    }

    /// Prints headings, a rule and the rows. Rows that are appended afterwards may be printed by another call, without headings; columns
    /// only become wider.
    pub fn print(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let headings: Vec<String> = self.headings.iter().map(|heading| heading.text.clone()).collect();
            self.line(out, &headings)?;
            let rules: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
            writeln!(out, "{}", rules.join("  "))?;
        }
        let rows = std::mem::take(&mut self.rows);
        rows.iter().try_for_each(|row| self.line(out, row))
    }

    fn line(&self, out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
        let aligned = self.headings.iter().zip(&self.widths).enumerate().map(|(column, (heading, width))| {
            let cell = cells.get(column).map_or("", String::as_str);
            let padding = " ".repeat(width - cell.width());
            if heading.numeric { padding + cell } else { cell.to_owned() + &padding }
        });
        writeln!(out, "{}", aligned.collect::<Vec<_>>().join("  ").trim_end())
    }
}

/// One line without control characters: a file's text must not steer the terminal. Cut where it gets long.
pub fn printable(text: &str) -> String {
    cut(text, WORDS_WIDTH)
}

/// The beginning of a text, with `…` for the rest if there is one.
pub fn shortened(text: &str, width: usize) -> String {
    cut(text, width)
}

/// One line, as long as it is, that can't steer the terminal.
pub fn without_controls(text: &str) -> String {
    text.chars().map(harmless).collect()
}

fn harmless(character: char) -> char {
    match character {
        '\n' => '⏎',
        '\t' => ' ',
        other if other.is_control() => '�',
        other => other,
    }
}

fn cut(text: &str, cell_width: usize) -> String {
    let mut cell = String::new();
    let mut width = 0;
    for shown in text.chars().map(harmless) {
        width += shown.width().unwrap_or(0);
        if width > cell_width {
            cell.push('…');
            break;
        }
        cell.push(shown);
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_the_terminal_shows() {
        let mut table = Table::new(&["name", ">bytes"]);
        table.row(vec!["价格".to_owned(), "7".to_owned()]);
        table.row(vec!["a\u{1b}[31m\nb".to_owned(), "1,234".to_owned()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "name      bytes\n────────  ─────\n价格          7\na�[31m⏎b  1,234\n");
        table.row(vec!["a wider name".to_owned(), "8".to_owned()]);
        let mut more = Vec::new();
        table.print(&mut more).unwrap();
        assert_eq!(more, b"a wider name      8\n");
    }

    #[test]
    fn long_cells_are_cut() {
        assert_eq!(cut(&"x".repeat(500), WORDS_WIDTH).chars().count(), WORDS_WIDTH + 1);
    }
}
