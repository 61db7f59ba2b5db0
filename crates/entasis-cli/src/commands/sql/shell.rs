//! The shell: statements at a terminal, with history, completion and times.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Instant;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

use super::super::Report;
use super::session::Session;
use super::statements::{first_end, is_command};
use super::{Arguments, answer_all};
use crate::exit::Failure;
use crate::{table, units};

const WELCOME: &str = "\
Statements end with `;`, and a file's name in quotes is a table: select * from 'trips.ent' limit 3;
Tab completes names of files and words of SQL; Ctrl-C stops a query, Ctrl-D ends; \\cache shows the cache of --cache.";

/// What Tab knows.
const WORDS: &[&str] = &[
    "and",
    "as",
    "asc",
    "avg",
    "between",
    "by",
    "case",
    "cast",
    "copy",
    "count",
    "create",
    "describe",
    "desc",
    "distinct",
    "else",
    "end",
    "entasis",
    "except",
    "exists",
    "explain",
    "external",
    "false",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "insert",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "location",
    "max",
    "min",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "partitioned",
    "right",
    "select",
    "show",
    "stored",
    "sum",
    "table",
    "tables",
    "then",
    "to",
    "true",
    "union",
    "using",
    "values",
    "view",
    "when",
    "where",
    "with",
];

/// Reads and answers statements until the terminal's end.
pub fn run(session: &Session, arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    let mut editor: Editor<Prompt<'_>, FileHistory> = Editor::new().map_err(unreadable)?;
    editor.set_helper(Some(Prompt { session, files: FilenameCompleter::new() }));
    let history = history_file();
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    writeln!(report.out, "{WELCOME}")?;
    report.out.flush()?;
    loop {
        let text = match editor.readline("entasis> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unreadable(error)),
        };
        if text.trim().is_empty() {
            continue;
        }
        if matches!(text.trim(), "exit" | "quit" | "exit;" | "quit;") {
            break;
        }
        // A history that can't be kept is no reason not to answer.
        let _ = editor.add_history_entry(text.trim());
        let begun = Instant::now();
        match answer_all(session, &text, arguments, report) {
            Ok(()) => writeln!(report.out, "{}", units::seconds(begun.elapsed().as_secs_f64()))?,
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => writeln!(report.out, "error: {}", table::without_controls(&failure.to_string()))?,
        }
        report.out.flush()?;
    }
    if let Some(path) = &history {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if folder.is_ok() {
            let _ = editor.save_history(path);
        }
    }
    Ok(())
}

fn unreadable(error: ReadlineError) -> Failure {
    Failure::unusable("terminal".as_ref(), error)
}

/// Where the shell remembers, as other programs do.
fn history_file() -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("entasis").join("history"))
}

struct Prompt<'a> {
    session: &'a Session,
    files: FilenameCompleter,
}

impl Completer for Prompt<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        // In quotes, the name of a file.
        if typed.matches('\'').count() % 2 == 1 {
            let (start, names) = self.files.complete(line, at, context)?;
            return Ok((start, names));
        }
        let start = typed
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
        let word = typed[start..].to_ascii_lowercase();
        let words = WORDS.iter().map(|word| (*word).to_owned()).chain(self.session.tables());
        let fitting = words.filter(|candidate| !word.is_empty() && candidate.starts_with(&word));
        let pairs = fitting.map(|candidate| Pair { display: candidate.clone(), replacement: candidate });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Prompt<'_> {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_whole = text.is_empty()
            || is_command(text)
            || text == "exit"
            || text == "quit"
            || first_end(text).is_some_and(|end| end <= text.len() && text.ends_with(';'));
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Prompt<'_> {
    type Hint = String;
}

impl Highlighter for Prompt<'_> {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }
}

impl Helper for Prompt<'_> {}
