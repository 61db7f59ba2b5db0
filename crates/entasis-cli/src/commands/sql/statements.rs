//! Where statements end.

use std::io::BufRead;

use crate::exit::Failure;

/// Reads statements from standard input and passes each on, with its semicolon, as soon as it is there.
pub fn from_standard(mut run: impl FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut waiting = String::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::io("standard input".as_ref(), &error))?;
        if waiting.trim().is_empty() && is_command(&line) {
            run(&line)?;
            continue;
        }
        waiting.push_str(&line);
        waiting.push('\n');
        while let Some(end) = first_end(&waiting) {
            let rest = waiting.split_off(end);
            run(&std::mem::replace(&mut waiting, rest))?;
        }
    }
    if waiting.trim().is_empty() { Ok(()) } else { run(&waiting) }
}

/// Whether a line isn't SQL, but something for the shell itself: `\cache`.
pub fn is_command(text: &str) -> bool {
    text.trim_start().starts_with('\\')
}

/// Just after the first semicolon that ends a statement: none in quotes or comments does.
pub fn first_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        at += match bytes[at] {
            b';' => return Some(at + 1),
            // A doubled quote ends one string and begins the next.
            quote @ (b'\'' | b'"') => rest[1..].find(quote as char)? + 2,
            b'-' if rest.starts_with("--") => rest.find('\n')? + 1,
            b'/' if rest.starts_with("/*") => rest[2..].find("*/")? + 4,
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// Whether a text is statements that have all ended, but for a comment.
pub fn is_complete(text: &str) -> bool {
    let Some(end) = first_end(text) else { return false };
    let rest = &text[end..];
    is_complete(rest) || rest.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::{first_end, is_complete};

    #[test]
    fn a_text_is_complete_where_its_last_statement_has_ended() {
        for text in
            ["select 1;", "select 1; select 2;  ", "select ';';\n", "select 1; -- done", "select 1;\n -- a\n--b;"]
        {
            assert!(is_complete(text), "{text}");
        }
        for text in ["", " ", "select 1", "select ';", "select 1; select 2", "select 1 -- ;", "select 'a\n;"] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn statements_end_at_semicolons_of_their_own() {
        for (text, expected) in [
            ("select 1; select 2;", Some(9)),
            ("select ';' ;", Some(12)),
            ("select 'it''s;' from \"a;b\" -- c;\n;", Some(34)),
            ("/* ; */ select 1;", Some(17)),
            ("select 'ü;", None),
            ("ü;", Some(3)),
            ("select 1 -- ;", None),
            ("", None),
        ] {
            assert_eq!(first_end(text), expected, "{text}");
        }
    }
}
