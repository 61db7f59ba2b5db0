//! Files that appear complete or not at all.
//!
//! A file is written beside its target, synced, and given the target's name at the end; the folder is synced then. On
//! Linux it has no name before (`O_TMPFILE`), so that not even a killed process leaves anything behind. Elsewhere, and
//! on file systems that refuse, it is a hidden file in the same folder, removed when the writer is dropped.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::error::{Error, Result};

/// A file that is being written and isn't visible yet. Dropping it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    target: PathBuf,
    /// The hidden file, where the file has a name already.
    hidden: Option<Hidden>,
}

/// A hidden file that goes when it is dropped, unless it got another name before.
#[derive(Debug)]
struct Hidden(PathBuf);

impl Drop for Hidden {
    fn drop(&mut self) {
        // There is nobody to tell: the error that led here is more important.
        let _ = fs::remove_file(&self.0);
    }
}

impl AtomicFile {
    /// Begins a file that will be at `target`, which may exist (it stays until [`Self::commit`]); a link is followed.
    ///
    /// # Errors
    /// An invalid argument if something is there that isn't a regular file: a rename would put a file in the place of a
    /// device or a pipe.
    pub fn create(target: &Path) -> Result<Self> {
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if target.is_dir() || target.file_name().is_none() {
            return Err(Error::InvalidArgument(format!("{} is a folder", target.display())));
        }
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            return Err(Error::InvalidArgument(format!("{} isn't a regular file", target.display())));
        }
        let folder = folder(&target);
        if let Some(file) = unnamed(&folder) {
            return Ok(Self { file, target, hidden: None });
        }
        let (file, hidden) = hidden(&target, |path| OpenOptions::new().write(true).create_new(true).open(path))
            .map_err(|source| Error::io(target.display().to_string(), source))?;
        Ok(Self { file, target, hidden: Some(hidden) })
    }

    /// Makes the file durable and visible. On failure nothing is left, and an earlier file at the target stays.
    pub fn commit(self) -> Result<()> {
        let path = self.target.display().to_string();
        self.commit_inner().map_err(|source| Error::io(path, source))
    }

    fn commit_inner(self) -> io::Result<()> {
        self.file.sync_all()?;
        let hidden = match self.hidden {
            Some(hidden) => hidden,
            None => match link(&self.file, &self.target) {
                Ok(()) => return sync_folder(&self.target),
                // A link never replaces a file, a rename does.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    hidden(&self.target, |path| link(&self.file, path))?.1
                }
                Err(error) => return Err(error),
            },
        };
        fs::rename(&hidden.0, &self.target)?;
        std::mem::forget(hidden);
        sync_folder(&self.target)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn folder(target: &Path) -> PathBuf {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Calls `make` with hidden names beside `target` until one is free.
fn hidden<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, Hidden)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder(target).join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        match make(&path) {
            Ok(made) => return Ok((made, Hidden(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// A file without a name in `folder`, if the system has such, and a way to name it later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
    fs::symlink_metadata(descriptor(&file)).is_ok().then_some(file)
}

#[cfg(target_os = "linux")]
fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)))
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    Ok(rustix::fs::linkat(CWD, descriptor(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_folder: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    File::open(folder(target))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_target: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn named(target: &Path) -> AtomicFile {
        let (file, hidden) = hidden(target, |path| OpenOptions::new().write(true).create_new(true).open(path)).unwrap();
        AtomicFile { file, target: target.to_owned(), hidden: Some(hidden) }
    }

    #[test]
    fn nothing_is_visible_before_commit_and_all_after() {
        for create in [|target: &Path| AtomicFile::create(target).unwrap(), named] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("a.ent");
            for content in ["first", "second"] {
                let before = fs::read(&target).ok();
                let mut file = create(&target);
                file.write_all(content.as_bytes()).unwrap();
                assert_eq!(fs::read(&target).ok(), before);
                file.commit().unwrap();
                assert_eq!(fs::read(&target).unwrap(), content.as_bytes());
                assert_eq!(names(folder.path()), ["a.ent"]);
            }
        }
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        for create in [|target: &Path| AtomicFile::create(target).unwrap(), named] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("a.ent");
            fs::write(&target, "before").unwrap();
            let mut file = create(&target);
            file.write_all(b"after").unwrap();
            drop(file);
            assert_eq!(names(folder.path()), ["a.ent"]);
            assert_eq!(fs::read(&target).unwrap(), b"before");
        }
    }

    #[test]
    fn links_are_followed_and_folders_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (target, symlink) = (folder.path().join("a.ent"), folder.path().join("b.ent"));
        fs::write(&target, "before").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&target, &symlink).unwrap();
        let mut file = AtomicFile::create(&symlink).unwrap();
        file.write_all(b"after").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"after");
        assert_eq!(fs::read_link(&symlink).unwrap(), target);
        assert!(matches!(AtomicFile::create(folder.path()), Err(Error::InvalidArgument(_))));
        let nowhere = AtomicFile::create(&folder.path().join("none").join("c.ent"));
        assert!(matches!(nowhere, Err(Error::Io { .. })));
    }

    #[test]
    fn a_folder_that_vanished_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let file = AtomicFile::create(&inner.join("a.ent")).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        assert!(matches!(file.commit(), Err(Error::Io { .. })));
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
