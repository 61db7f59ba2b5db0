//! The rules of the repository that a compiler can't see. Every rule reports all places that break it.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// The folder that the workspace lies in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates lie two folders down").to_owned()
}

/// A file of text that people wrote: its path from the root, and its lines.
struct Text {
    path: String,
    lines: Vec<String>,
}

/// Every text of the repository that isn't generated, taken over from elsewhere, or hidden.
fn texts() -> Vec<Text> {
    fn walk(folder: &Path, root: &Path, out: &mut Vec<Text>) {
        const LEFT_OUT: [&str; 8] =
            ["target", "corpus", "artifacts", "coverage", "golden", "Cargo.lock", "LICENSE", "shared"];
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if LEFT_OUT.contains(&name.as_str()) || (name.starts_with('.') && name != ".ci") {
                continue;
            }
            if path.is_dir() {
                walk(&path, root, out);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
                out.push(Text { path, lines: text.lines().map(str::to_owned).collect() });
            }
        }
    }
    let (root, mut out) = (root(), Vec::new());
    walk(&root, &root, &mut out);
    assert!(out.len() > 80, "{} texts: the walk has lost its way", out.len());
    out
}

fn rust() -> Vec<Text> {
    texts().into_iter().filter(|text| text.path.ends_with(".rs")).collect()
}

/// Every line for which `breaks` is true, as `path:line: text`.
fn places(texts: &[Text], breaks: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        for (number, line) in text.lines.iter().enumerate().filter(|(_, line)| breaks(line)) {
            found.push(format!("{}:{}: {}", text.path, number + 1, line.trim()));
        }
    }
    found
}

/// A word of two halves, so that this file doesn't contain it.
fn word(left: &str, right: &str) -> String {
    format!("{left}{right}")
}

#[test]
fn no_file_is_too_long() {
    const MOST_LINES: usize = 800;
    let long = texts().into_iter().filter(|text| text.lines.len() > MOST_LINES);
    assert_eq!(long.map(|text| format!("{}: {} lines", text.path, text.lines.len())).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn no_file_names_a_folder_of_somebody_s_machine() {
    let folders =
        [word("/ro", "ot/"), word("/ho", "me/"), word("/wo", "rk/"), word("/tmp", "/w/"), word("/Us", "ers/")];
    let names = |line: &str| {
        folders.iter().any(|folder| {
            // After a letter it is the inner part of a path that begins somewhere else.
            line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.'))
        })
    };
    assert_eq!(places(&texts(), names), [""; 0]);
}

#[test]
fn nothing_is_left_for_later() {
    let words =
        [word("TO", "DO"), word("FIX", "ME"), word("XX", "X:"), word("todo", "!("), word("unimplemented", "!(")];
    assert_eq!(places(&texts(), |line| words.iter().any(|word| line.contains(word))), [""; 0]);
}

#[test]
fn no_test_is_ignored() {
    let attributes = [word("#[ig", "nore"), word("cfg_attr(", "ignore")];
    assert_eq!(places(&rust(), |line| attributes.iter().any(|word| line.contains(word))), [""; 0]);
}

/// Where `unsafe` may stand: kernels, and places where bytes are reinterpreted.
const UNSAFE: [&str; 6] = [
    "crates/entasis-encoding/src/simd/",
    // Memory that is written once while other parts of it are lent.
    "crates/entasis-encoding/src/block/pieces.rs",
    // Buffers of Arrow lent as slices of lanes.
    "crates/entasis/src/arrow/input.rs",
    // Files mapped into memory, where a caller asks for it.
    "crates/entasis/src/source.rs",
    // Checked bytes taken for text.
    // Offsets that were found to ascend.
    "crates/entasis/src/arrow/output.rs",
    "crates/entasis/src/arrow/utf8.rs",
];

/// True if the line holds code that is unsafe, or allows it.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe_code"]
        .iter()
        .any(|word| code.contains(word))
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    let texts: Vec<_> =
        rust().into_iter().filter(|text| !UNSAFE.iter().any(|path| text.path.starts_with(path))).collect();
    let mine = file!();
    let elsewhere = places(&texts, is_unsafe).into_iter().filter(|place| !place.starts_with(mine));
    assert_eq!(elsewhere.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let opens = |line: &str| line.split("//").next().is_some_and(|code| code.contains("unsafe {"));
    let mut silent = Vec::new();
    for text in rust().iter().filter(|text| UNSAFE.iter().any(|path| text.path.starts_with(path))) {
        for (number, line) in text.lines.iter().enumerate().filter(|(_, line)| opens(line)) {
            let before = &text.lines[number.saturating_sub(8)..=number];
            if !before.iter().any(|line| line.contains("SAFETY:")) {
                silent.push(format!("{}:{}: {}", text.path, number + 1, line.trim()));
            }
        }
    }
    assert_eq!(silent, [""; 0]);
}

/// The names of the crates that a crate depends on, whatever for but tests, build scripts left out.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if let (true, Some((name, _))) = (inside, line.split_once(['.', '=', ' '])) {
            names.push(name.trim().to_owned());
        }
    }
    assert!(!names.is_empty(), "{name} depends on nothing: the manifest isn't laid out as this test reads it");
    names
}

#[test]
fn arrows_run_one_way_only() {
    // From the right to the left of the map of the parts: none knows those after it.
    const PARTS: [&str; 3] = ["entasis-encoding", "entasis", "entasis-cache"];
    const ENGINES: [&str; 5] = ["datafusion", "polars", "duckdb", "velox", "sqlparser"];
    const RUNTIMES: [&str; 4] = ["tokio", "async-std", "smol", "rayon"];
    const IO: [&str; 6] = ["arrow", "parquet", "object_store", "futures", "memmap2", "rustix"];
    let begins = |name: &str, words: &[&str]| words.iter().any(|word| name.starts_with(word));
    for (place, part) in PARTS.iter().enumerate() {
        for name in dependencies(part) {
            let is_below = PARTS[..place].contains(&name.as_str());
            assert!(is_below || !name.starts_with("entasis"), "{part} must not know {name}");
            assert!(!begins(&name, &ENGINES) && !begins(&name, &RUNTIMES), "{part} must not know {name}");
            assert!(place > 0 || !begins(&name, &IO), "{part} must not know {name}");
        }
    }
}

#[test]
fn manifests_take_over_what_the_workspace_says() {
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let manifest = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
        for line in ["[lints]\nworkspace = true", "license.workspace = true", "edition.workspace = true"] {
            assert!(manifest.contains(line), "no {line:?} in\n{manifest}");
        }
    }
}
