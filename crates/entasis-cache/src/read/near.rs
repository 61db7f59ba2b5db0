//! A file of this machine: opened once for a read, and read by position on the thread that asks, as the store would have it opened, handed to
//! another thread, and looked at anew for every request.

use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;
use entasis::source::{FileSource, Source};
use object_store::ObjectMeta;

/// An open file that was of the right version when it was opened.
pub(super) struct NearFile {
    source: FileSource,
    path: PathBuf,
    stamp: Stamp,
}

/// What the system says of a file that changes with its bytes, or if there is another one at its path.
#[derive(Debug, PartialEq)]
struct Stamp {
    size_bytes: u64,
    modified: Option<SystemTime>,
    /// Device and inode, where there are such.
    place: Option<(u64, u64)>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let place = {
            use std::os::unix::fs::MetadataExt;
            Some((metadata.dev(), metadata.ino()))
        };
        #[cfg(not(unix))]
        let place = None;
        Self { size_bytes: metadata.len(), modified: metadata.modified().ok(), place }
    }
}

impl NearFile {
    /// A file that a store has opened, and described so. It is given back if it was written since, or can't be told from what it will be then.
    pub fn new(file: File, path: PathBuf, meta: &ObjectMeta) -> Result<Self, (File, PathBuf)> {
        let stamp = file.metadata().ok().map(|metadata| Stamp::of(&metadata));
        let is_one = |stamp: &Stamp| stamp.size_bytes == meta.size && stamp.modified == Some(meta.last_modified.into());
        let Some(stamp) = stamp.filter(is_one) else { return Err((file, path)) };
        let source = FileSource::of_file(file, stamp.size_bytes, path.display().to_string());
        Ok(Self { source, path, stamp })
    }

    /// The bytes of each range.
    pub fn read(&self, ranges: &[Range<u64>]) -> entasis::Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.source.read(range.clone())).collect()
    }

    /// Whether it is still there, and wasn't written since it was opened.
    pub fn is_same(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| Stamp::of(&metadata) == self.stamp)
    }
}

impl std::fmt::Debug for NearFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NearFile").field("path", &self.path).field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::slice;
    use std::time::Duration;

    use object_store::local::LocalFileSystem;
    use object_store::{GetOptions, GetResultPayload, ObjectStore};

    use super::*;

    /// The file as the store opens and describes it.
    fn opened(folder: &std::path::Path) -> (File, PathBuf, ObjectMeta) {
        let store = LocalFileSystem::new_with_prefix(folder).unwrap();
        let found = futures::executor::block_on(store.get_opts(&"t".into(), GetOptions::default())).unwrap();
        let GetResultPayload::File(file, path) = found.payload else { panic!("no file") };
        (file, path, found.meta)
    }

    fn near(folder: &std::path::Path) -> NearFile {
        let (file, path, meta) = opened(folder);
        NearFile::new(file, path, &meta).unwrap()
    }

    #[test]
    fn a_file_that_is_written_replaced_or_removed_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, b"0123456789").unwrap();
        let file = near(folder.path());
        assert_eq!(file.read(&[2..5, 0..0, 9..10]).unwrap(), [&b"234"[..], b"", b"9"]);
        assert!(file.read(slice::from_ref(&(9..11))).is_err() && file.is_same());
        let touch = |file: &File, by: u64| {
            let modified = file.metadata().unwrap().modified().unwrap() + Duration::from_secs(by);
            file.set_modified(modified).unwrap();
        };
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"x").unwrap();
        touch(&writer, 1);
        assert!(!file.is_same(), "written in place");
        let file = near(folder.path());
        writer.set_len(4).unwrap();
        assert!(!file.is_same() && file.read(slice::from_ref(&(2..5))).is_err(), "shortened");
        let (was_opened, path, meta) = opened(folder.path());
        touch(&writer, 2);
        assert!(NearFile::new(was_opened, path.clone(), &meta).is_err(), "written as it was opened");
        let file = near(folder.path());
        let aside = folder.path().join("aside");
        fs::copy(&path, &aside).unwrap();
        File::options().write(true).open(&aside).unwrap().set_modified(file.stamp.modified.unwrap()).unwrap();
        fs::rename(&aside, &path).unwrap();
        assert_eq!(file.is_same(), file.stamp.place.is_none(), "replaced by one of the same size and time");
        let file = near(folder.path());
        fs::remove_file(&path).unwrap();
        assert!(!file.is_same(), "removed");
    }
}
