//! From what was typed to the files that are meant: files, folders and patterns.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::format::Format;

/// A file that a command works on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its place below the folder that was asked for, or its bare name.
    pub relative: PathBuf,
}

impl Found {
    /// With the format that was asked for, else that of its extension.
    pub fn with_format(&self, asked: Option<Format>) -> Result<(PathBuf, Format), Failure> {
        Ok((self.path.clone(), Format::of(&self.path, asked, "say which with --from")?))
    }
}

/// All files meant by `asked`, in the order of the arguments; a folder's and a pattern's are sorted.
///
/// A folder stands for all files below it whose extension is that of a [`Format`]; those whose name begins with `.` or `_` are left out.
/// A pattern (`data/*.parquet`) is expanded here for shells that don't.
pub fn expand(asked: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for path in asked {
        if path.is_dir() {
            let before = found.len();
            walk(path, Path::new(""), &mut found)?;
            if found.len() == before {
                return Err(Failure::unusable(path, "the folder has no file of a known format"));
            }
        } else if path.exists() {
            found.push(bare(path.clone()));
        } else {
            found.extend(matching(path)?);
        }
    }
    Ok(found)
}

/// Refuses a folder where one file is meant, and what isn't there.
pub fn require_file(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(Failure::usage(format!("{}: is a folder, not a file", path.display()))),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::io(path, &error)),
    }
}

fn bare(path: PathBuf) -> Found {
    let relative = path.file_name().map_or_else(|| path.clone(), PathBuf::from);
    Found { path, relative }
}

fn walk(folder: &Path, below: &Path, found: &mut Vec<Found>) -> Result<(), Failure> {
    let failure = |error| Failure::io(folder, &error);
    let mut entries = fs::read_dir(folder).map_err(failure)?.collect::<Result<Vec<_>, _>>().map_err(failure)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let path = entry.path();
        if name.to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            // A link to a folder above would never end.
            if !path.is_symlink() {
                walk(&path, &below.join(&name), found)?;
            }
        } else if Format::from_extension(&path).is_some() {
            found.push(Found { path, relative: below.join(&name) });
        }
    }
    Ok(())
}

fn matching(pattern: &Path) -> Result<Vec<Found>, Failure> {
    let missing = || Failure::unusable(pattern, "no such file or folder");
    let text = pattern.to_str().filter(|text| text.contains(['*', '?', '['])).ok_or_else(missing)?;
    let paths = glob::glob(text).map_err(|error| Failure::usage(format!("{text}: {error}")))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|error| Failure::io(error.path(), error.error()))?;
        if path.is_file() {
            found.push(bare(path));
        }
    }
    found.sort();
    if found.is_empty() { Err(Failure::unusable(pattern, "no file matches")) } else { Ok(found) }
}
