//! Parquet's metadata, kept by version: a query on an object that was read before decodes none. Of small objects also the bytes, until a read
//! takes them that was to fetch them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::pages::Source;
use crate::Version;

/// Metadata of the objects that were opened last, within a budget of their own.
pub(crate) struct Footers {
    budget_bytes: u64,
    used_bytes: u64,
    /// What was used last comes last.
    kept: VecDeque<Kept>,
}

struct Kept {
    source: Arc<Source>,
    /// All of the object.
    whole: Option<Bytes>,
}

impl Kept {
    fn size_bytes(&self) -> u64 {
        self.source.metadata_bytes + self.whole.as_ref().map_or(0, |whole| whole.len() as u64)
    }
}

impl Footers {
    /// Keeps at most so many bytes, as arrow-rs counts them.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, used_bytes: 0, kept: VecDeque::new() }
    }

    /// The metadata of a version if they are there.
    pub fn get(&mut self, version: &Version) -> Option<Arc<Source>> {
        let place = self.kept.iter().position(|kept| kept.source.version == *version)?;
        let found = self.kept.remove(place)?;
        let source = found.source.clone();
        self.kept.push_back(found);
        Some(source)
    }

    /// Whether the metadata of a version are there.
    pub fn keeps(&self, version: &Version) -> bool {
        self.kept.iter().any(|kept| kept.source.version == *version)
    }

    /// Takes in the metadata of a version, and its bytes if there is room, which replace those of others of its object; what was used longest
    /// ago goes, and is returned.
    pub fn insert(&mut self, source: &Arc<Source>, whole: Option<Bytes>) -> Vec<Version> {
        let mut evicted = Vec::new();
        let metadata_bytes = source.metadata_bytes;
        self.remove(|kept| kept.object() == source.version.object());
        if metadata_bytes > self.budget_bytes {
            return evicted;
        }
        let whole = whole.filter(|whole| metadata_bytes + whole.len() as u64 <= self.budget_bytes);
        let kept = Kept { source: source.clone(), whole };
        while self.used_bytes + kept.size_bytes() > self.budget_bytes {
            let Some(gone) = self.kept.pop_front() else { break };
            self.used_bytes -= gone.size_bytes();
            evicted.push(gone.source.version.clone());
        }
        self.used_bytes += kept.size_bytes();
        self.kept.push_back(kept);
        evicted
    }

    /// Puts more metadata of a version in the place of what is there of it; of one that is gone nothing is taken in. As [`Self::insert`].
    pub fn replace(&mut self, source: &Arc<Source>) -> Vec<Version> {
        match self.keeps(&source.version) {
            true => self.insert(source, None),
            false => Vec::new(),
        }
    }

    /// All bytes of an object, if they are there: once.
    pub fn take_whole(&mut self, version: &Version) -> Option<Bytes> {
        let kept = self.kept.iter_mut().find(|kept| kept.source.version == *version)?;
        let whole = kept.whole.take()?;
        self.used_bytes -= whole.len() as u64;
        Some(whole)
    }

    fn remove(&mut self, is_one: impl Fn(&Version) -> bool) {
        let used_bytes = &mut self.used_bytes;
        self.kept.retain(|kept| {
            let stays = !is_one(&kept.source.version);
            *used_bytes -= if stays { 0 } else { kept.size_bytes() };
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, RecordBatch};
    use bytes::Bytes;
    use object_store::ObjectMeta;
    use object_store::memory::InMemory;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderMetadata;

    use super::*;
    use crate::read::Object;
    use crate::{ObjectId, Stamp};

    fn source(path: &str, tag: &str) -> Arc<Source> {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let metadata = ArrowReaderMetadata::load(&file, Default::default()).unwrap().metadata().clone();
        let meta = ObjectMeta {
            location: path.into(),
            last_modified: Default::default(),
            size: 0,
            e_tag: Some(tag.to_owned()),
            version: None,
        };
        let object = Object::found(Arc::new(InMemory::new()), "s3://a".into(), meta);
        Arc::new(Source::new(&object, metadata, false).unwrap())
    }

    fn version(path: &str, tag: &str) -> Version {
        Version::new(ObjectId::new("s3://a", path.into()), Stamp::ETag(tag.to_owned()))
    }

    #[test]
    fn the_oldest_goes_and_versions_replace_each_other() {
        let each = source("x", "1").metadata_bytes;
        let mut footers = Footers::new(2 * each);
        for path in ["x", "y"] {
            footers.insert(&source(path, "1"), None);
        }
        assert!(footers.get(&version("x", "1")).is_some());
        assert_eq!(footers.insert(&source("z", "1"), None), [version("y", "1")], "x was used after it");
        assert!(footers.get(&version("y", "1")).is_none() && !footers.keeps(&version("y", "1")));
        footers.insert(&source("x", "2"), None);
        assert!(footers.get(&version("x", "1")).is_none() && footers.get(&version("x", "2")).is_some());
        assert!(footers.get(&version("z", "1")).is_some());
        assert_eq!(footers.used_bytes, 2 * each);
        footers.replace(&source("y", "1"));
        assert!(footers.get(&version("y", "1")).is_none(), "what is gone stays gone");
        let more = source("x", "2");
        footers.replace(&more);
        assert!(footers.get(&version("x", "2")).is_some_and(|kept| Arc::ptr_eq(&kept, &more)));
        assert_eq!(footers.used_bytes, 2 * each);
        let mut none = Footers::new(each - 1);
        none.insert(&source("x", "1"), None);
        assert!(none.get(&version("x", "1")).is_none() && none.used_bytes == 0);
    }

    #[test]
    fn bytes_are_taken_once_and_count() {
        let whole = Bytes::from_static(b"all of it");
        let each = source("x", "1").metadata_bytes;
        let mut footers = Footers::new(2 * each + 9);
        footers.insert(&source("x", "1"), Some(whole.clone()));
        footers.insert(&source("y", "1"), None);
        assert_eq!(footers.used_bytes, 2 * each + 9);
        assert_eq!(footers.take_whole(&version("x", "2")), None, "another version's");
        assert_eq!(footers.take_whole(&version("x", "1")), Some(whole.clone()));
        assert_eq!((footers.take_whole(&version("x", "1")), footers.used_bytes), (None, 2 * each));
        footers.insert(&source("z", "1"), Some(whole.clone()));
        assert!(footers.get(&version("x", "1")).is_none() && footers.used_bytes == 2 * each + 9);
        let mut tight = Footers::new(each + 8);
        tight.insert(&source("x", "1"), Some(whole));
        assert!(tight.get(&version("x", "1")).is_some() && tight.take_whole(&version("x", "1")).is_none());
    }
}
