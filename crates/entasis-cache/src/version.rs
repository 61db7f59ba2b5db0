//! Versions of objects: what makes bytes that were read at different times the same bytes.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use object_store::ObjectMeta;
use object_store::path::Path;

/// An object, whatever its bytes are at the moment: a path in a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// URL of the store, as its user names it: the same path in two buckets, or in two folders, is two objects.
    pub store: Arc<str>,
    /// Path in the store.
    pub path: Path,
}

impl ObjectId {
    /// The object at `path` in the store at the URL `store`.
    pub fn new(store: impl Into<Arc<str>>, path: Path) -> Self {
        Self { store: store.into(), path }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.store.trim_end_matches('/'), self.path)
    }
}

/// What tells the bytes of an object from those that were or will be at its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stamp {
    /// What the store says of its content.
    ETag(String),
    /// Where the store has no ETags.
    Modified {
        /// Bytes of the object.
        size_bytes: u64,
        /// Nanoseconds since 1970 at which it was last written. Two writes within the clock's grain, of the same size, are one stamp.
        unix_ns: i128,
    },
}

/// One version of one object. Versions are equal only if store, path and stamp are; cheap to clone.
#[derive(Debug, Clone)]
pub struct Version(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    object: ObjectId,
    stamp: Stamp,
    /// Of both: every cell that is asked for is looked up by it, several times.
    hash: u64,
}

impl Version {
    /// The version of `object` that `stamp` tells from others.
    pub fn new(object: ObjectId, stamp: Stamp) -> Self {
        let mut hasher = DefaultHasher::new();
        (&object, &stamp).hash(&mut hasher);
        Self(Arc::new(Inner { object, stamp, hash: hasher.finish() }))
    }

    /// The version that a store described: by its ETag, or else by its size and the time of its last modification.
    pub fn of(store: impl Into<Arc<str>>, meta: &ObjectMeta) -> Self {
        let stamp = match &meta.e_tag {
            Some(tag) => Stamp::ETag(tag.clone()),
            None => {
                let (seconds, rest) = (meta.last_modified.timestamp(), meta.last_modified.timestamp_subsec_nanos());
                let unix_ns = i128::from(seconds) * 1_000_000_000 + i128::from(rest);
                Stamp::Modified { size_bytes: meta.size, unix_ns }
            }
        };
        Self::new(ObjectId::new(store, meta.location.clone()), stamp)
    }

    /// Whether a store tells versions of an object apart: by an ETag, or by a time. Of an HTTP server without either, stores say 1970. What
    /// such objects hold is never kept: one that was overwritten by as many bytes would be taken for what it was.
    pub fn is_told(meta: &ObjectMeta) -> bool {
        meta.e_tag.is_some() || meta.last_modified.timestamp() != 0
    }

    /// The object.
    pub fn object(&self) -> &ObjectId {
        &self.0.object
    }

    /// What tells it from other versions of the object.
    pub fn stamp(&self) -> &Stamp {
        &self.0.stamp
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        let same = |own: &Inner, other: &Inner| {
            own.hash == other.hash && own.stamp == other.stamp && own.object == other.object
        };
        Arc::ptr_eq(&self.0, &other.0) || same(&self.0, &other.0)
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stamp() {
            Stamp::ETag(tag) => write!(f, "{} ({tag})", self.object()),
            Stamp::Modified { size_bytes, unix_ns } => {
                write!(f, "{} ({size_bytes} bytes at {unix_ns} ns)", self.object())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(path: &str, e_tag: Option<&str>, size: u64, modified: &str) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(path),
            last_modified: modified.parse().unwrap(),
            size,
            e_tag: e_tag.map(str::to_owned),
            version: None,
        }
    }

    #[test]
    fn versions_differ_by_store_path_and_stamp() {
        let (noon, later) = ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00.000000001Z");
        let versions = [
            Version::of("s3://a", &meta("t/x.parquet", Some("1"), 10, noon)),
            Version::of("s3://a", &meta("t/x.parquet", Some("2"), 10, noon)),
            Version::of("s3://b", &meta("t/x.parquet", Some("1"), 10, noon)),
            Version::of("s3://a", &meta("u/x.parquet", Some("1"), 10, noon)),
            Version::of("s3://a", &meta("t/x.parquet", None, 10, noon)),
            Version::of("s3://a", &meta("t/x.parquet", None, 11, noon)),
            Version::of("s3://a", &meta("t/x.parquet", None, 10, later)),
        ];
        for (index, version) in versions.iter().enumerate() {
            for (other_index, other) in versions.iter().enumerate() {
                assert_eq!(version == other, index == other_index, "{version}, {other}");
            }
        }
        let again = Version::of("s3://a", &meta("t/x.parquet", Some("1"), 99, later));
        assert_eq!(again, versions[0], "an ETag says all");
        assert_eq!(again.to_string(), "s3://a/t/x.parquet (1)");
    }

    #[test]
    fn neither_tag_nor_time_tells_nothing() {
        let (never, noon) = ("1970-01-01T00:00:00Z", "2026-01-01T12:00:00Z");
        let told = [(Some("1"), noon), (Some("1"), never), (None, noon), (None, never)]
            .map(|(e_tag, modified)| Version::is_told(&meta("t/x.parquet", e_tag, 10, modified)));
        assert_eq!(told, [true, true, true, false]);
    }
}
