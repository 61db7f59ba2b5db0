//! Tables for the terminal.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wider values of users' tables are cut: a table is for a glance, `--format csv` or `--json` for all of it.
#[cfg(feature = "text")]
const DATA_WIDTH: usize = 60;
/// The same for our own words.
const WORDS_WIDTH: usize = 100;
/// Cells aren't cut shorter than this for the sake of columns that don't fit beside each other.
#[cfg(feature = "text")]
const LEAST_WIDTH: usize = 16;
/// Between columns.
const GAP: &str = "  ";
/// Stands for columns that are left out, and for the rest of what is cut.
const MORE: &str = "…";

/// A table of text that prints with aligned columns.
pub struct Table {
    headings: Vec<Heading>,
    cell_width: usize,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    is_begun: bool,
    /// The width that lines may have.
    #[cfg(feature = "text")]
    line_width: usize,
    /// How many of the first columns are shown, and how many of the last ones.
    shown: (usize, usize),
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
        let widths: Vec<usize> = headings.iter().map(|heading| heading.text.width()).collect();
        let shown = (headings.len(), 0);
        Table {
            headings,
            cell_width,
            widths,
            rows: Vec::new(),
            is_begun: false,
            #[cfg(feature = "text")]
            line_width: usize::MAX,
            shown,
        }
    }

    /// The table in lines of at most so many columns of a terminal, as far as it goes: long cells are cut shorter, and where that isn't enough columns in
    /// the middle are left out. What is printed first decides.
    #[cfg(feature = "text")]
    pub fn fitting(self, line_width: usize) -> Self {
        Self { line_width, ..self }
    }

    /// Columns that are left out.
    #[cfg(feature = "text")]
    pub fn left_out(&self) -> usize {
        self.headings.len() - self.shown.0 - self.shown.1
    }

    /// Cuts cells, and leaves out columns, until lines fit.
    #[cfg(feature = "text")]
    fn fit(&mut self) {
        let widths = |cell_width: usize| -> Vec<usize> {
            let cut = |(heading, width): (&Heading, &usize)| heading.text.width().max((*width).min(cell_width + 1));
            self.headings.iter().zip(&self.widths).map(cut).collect()
        };
        if line_width(&widths(self.cell_width)) <= self.line_width {
            return;
        }
        let fitting = (LEAST_WIDTH..self.cell_width).rev().find(|&width| line_width(&widths(width)) <= self.line_width);
        let cell_width = fitting.unwrap_or(LEAST_WIDTH);
        self.widths = widths(cell_width);
        self.cell_width = cell_width;
        for row in &mut self.rows {
            row.iter_mut().for_each(|cell| *cell = cut(cell, cell_width));
        }
        if fitting.is_some() {
            return;
        }
        let fits = |&(first, last): &(usize, usize)| {
            let [front, back] = [&self.widths[..first], &self.widths[self.widths.len() - last..]];
            first + last < self.widths.len() && line_width(&[front, &[MORE.width()], back].concat()) <= self.line_width
        };
        // From both ends in turns, or from the one that has room.
        let mut shown = (1, 0);
        loop {
            let (more, other) = ((shown.0 + 1, shown.1), (shown.0, shown.1 + 1));
            let in_turn = if shown.0 <= shown.1 { [more, other] } else { [other, more] };
            match in_turn.into_iter().find(fits) {
                Some(more) => shown = more,
                None => break,
            }
        }
        self.shown = shown;
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
            #[cfg(feature = "text")]
            self.fit();
            let headings: Vec<String> = self.headings.iter().map(|heading| heading.text.clone()).collect();
            self.line(out, &headings)?;
            let rules: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
            self.line(out, &rules)?;
        }
        let rows = std::mem::take(&mut self.rows);
        rows.iter().try_for_each(|row| self.line(out, row))
    }

    fn line(&self, out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
        let aligned = |column: usize| {
            let cell = cells.get(column).map_or("", String::as_str);
            let padding = " ".repeat(self.widths[column] - cell.width());
            if self.headings[column].numeric { padding + cell } else { cell.to_owned() + &padding }
        };
        let ((first, last), all) = (self.shown, self.headings.len());
        let mut line: Vec<String> = (0..first).map(aligned).collect();
        line.extend((first + last < all).then(|| MORE.to_owned()));
        line.extend((all - last..all).map(aligned));
        writeln!(out, "{}", line.join(GAP).trim_end())
    }
}

/// The width of a line of cells of these widths.
#[cfg(feature = "text")]
fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.width() * widths.len().saturating_sub(1)
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
            cell.push_str(MORE);
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

    #[cfg(feature = "text")]
    #[test]
    fn tables_fit_a_terminal() {
        let shown = |line_width: usize, columns: usize, cell: &str| {
            let names = (0..columns).map(|column| (format!("column {column}"), false));
            let mut table = Table::with_columns(names).fitting(line_width);
            table.row(vec![cell.to_owned(); columns]);
            let mut out = Vec::new();
            table.print(&mut out).unwrap();
            table.row(vec![cell.repeat(3); columns]);
            table.print(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().take(3).all(|line| line.width() <= line_width), "{text}");
            (text, table.left_out())
        };
        let (text, left_out) = shown(80, 3, "short");
        assert!(left_out == 0 && text.contains("short     short     short\n"), "{text}");
        // Cells are cut first.
        let (text, left_out) = shown(80, 3, &"x".repeat(50));
        let cut = format!("{}…", "x".repeat(24));
        assert!(left_out == 0 && text.contains(&[cut.as_str(); 3].join("  ")), "{text}");
        // Then columns in the middle go.
        let (text, left_out) = shown(80, 20, &"x".repeat(50));
        assert_eq!(left_out, 16, "{text}");
        assert!(text.lines().next().unwrap().starts_with("column 0"), "{text}");
        assert!(text.lines().next().unwrap().contains(" …  column 18 "), "{text}");
        // One is always there.
        assert_eq!(shown(200, 1, &"x".repeat(500)).1, 0);
    }

    #[test]
    fn long_cells_are_cut() {
        assert_eq!(cut(&"x".repeat(500), WORDS_WIDTH).chars().count(), WORDS_WIDTH + 1);
    }
}
