//! The shell: statements at a terminal, with history, completion and times.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use unicode_width::UnicodeWidthStr;

use super::super::Report;
use super::errors::{STOPPED, place_in};
use super::session::Session;
use super::statements::{is_command, is_complete};
use super::{Arguments, answer_all};
use crate::exit::Failure;
use crate::{table, units};

const WELCOME: &str = "\
Statements end with `;`, and a file's name in quotes is a table: select * from 'trips.ent' limit 3;
Tab completes names of files and words of SQL; Ctrl-C stops a query, Ctrl-D ends; \\? says more.";

/// What `\?` says.
pub const HELP: &str = "\
select * from 'trips.ent' limit 3;   a statement, of as many lines as you like; `;` ends it
describe 'trips.ent';                columns of a file, or of a table; show tables; lists those
explain analyze select ...;          how a query was answered

\\cache   what the cache of --cache holds, and what it did
\\?       this
\\q       ends, as exit, quit and Ctrl-D do

Tab      completes names of files in quotes, words of SQL and names of tables
↑ ↓      earlier statements, also those of earlier sessions; Ctrl-R searches them
Ctrl-C   gives up what is being typed, or stops what runs";

/// Statements that are remembered.
const HISTORY: usize = 10_000;

/// What isn't SQL.
const COMMANDS: &[&str] = &["\\?", "\\cache", "\\q"];

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
    let config =
        Config::builder().completion_type(CompletionType::List).max_history_size(HISTORY).map_err(unreadable)?;
    let mut editor: Editor<Prompt<'_>, FileHistory> = Editor::with_config(config.build()).map_err(unreadable)?;
    editor.set_helper(Some(Prompt { session, files: FilenameCompleter::new() }));
    let history = history_file();
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    writeln!(report.out, "{WELCOME}")?;
    report.out.flush()?;
    loop {
        // While a statement is typed Ctrl-C is a key; from the moment on that it isn't, it is heard.
        let interrupt = session.listen();
        let text = match editor.readline("entasis> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unreadable(error)),
        };
        if text.trim().is_empty() {
            continue;
        }
        // A history that can't be kept is no reason not to answer.
        let is_new = editor.add_history_entry(text.trim()).unwrap_or_default();
        if let Some(path) = history.as_ref().filter(|_| is_new) {
            keep(&mut editor, path);
        }
        let text = match text.trim().trim_end_matches(';').trim_end() {
            "exit" | "quit" | "\\q" => break,
            "help" => "\\?",
            _ => text.as_str(),
        };
        report.line_width = editor.dimensions().map_or(usize::MAX, |(columns, _)| usize::from(columns));
        let begun = Instant::now();
        match answer_all(session, text, &interrupt, arguments, report) {
            Ok(()) if is_command(text) => {}
            Ok(()) => writeln!(report.out, "{}", units::seconds(begun.elapsed().as_secs_f64()))?,
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => {
                let message = failure.to_string();
                if message == STOPPED {
                    session.replace_workers()?;
                }
                tell(text, &message, report)?;
            }
        }
        report.out.flush()?;
    }
    Ok(())
}

/// Adds what was entered last to the file of earlier statements, so that it is there whatever becomes of this session.
fn keep(editor: &mut Editor<Prompt<'_>, FileHistory>, path: &Path) {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    if folder.is_ok() {
        let _ = editor.append_history(path);
    }
}

/// Says what is wrong, and shows the place in the statement.
fn tell(text: &str, message: &str, report: &mut Report<'_>) -> Result<(), Failure> {
    // The terminal has shown `^C` and is still in that line.
    let before = if message == STOPPED { "\n" } else { "" };
    writeln!(report.out, "{before}error: {}", table::without_controls(message))?;
    if let Some((line, column)) = place_in(message)
        && let Some(source) = text.lines().nth(line.saturating_sub(1))
    {
        let until: String = source.chars().take(column.saturating_sub(1)).collect();
        let [source, until] = [source, &until].map(table::without_controls);
        if source.width() + 2 <= report.line_width {
            writeln!(report.out, "  {source}\n  {}^", " ".repeat(until.width()))?;
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
            let (start, mut names) = self.files.complete(line, at, context)?;
            let is_open = !line[at..].contains('\'');
            for name in names.iter_mut().filter(|name| is_open && !name.replacement.ends_with('/')) {
                name.replacement.push('\'');
            }
            return Ok((start, names));
        }
        if is_command(typed) {
            let fitting = COMMANDS.iter().filter(|command| command.starts_with(typed.trim_start()));
            let pair = |command: &&str| Pair { display: (*command).to_owned(), replacement: (*command).to_owned() };
            return Ok((typed.len() - typed.trim_start().len(), fitting.map(pair).collect()));
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
        let is_whole =
            text.is_empty() || is_command(text) || matches!(text, "exit" | "quit" | "help") || is_complete(text);
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
