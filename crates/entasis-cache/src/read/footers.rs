//! Parquet's metadata, kept by version: a query on an object that was read before decodes none.

use std::collections::VecDeque;

use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use crate::Version;

/// Metadata of the objects that were opened last, within a budget of their own.
pub(crate) struct Footers {
    budget_bytes: u64,
    used_bytes: u64,
    /// What was used last comes last.
    kept: VecDeque<(Version, ArrowReaderMetadata, u64)>,
}

impl Footers {
    /// Keeps at most so many bytes, as arrow-rs counts them.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, used_bytes: 0, kept: VecDeque::new() }
    }

    /// The metadata of a version if they are there.
    pub fn get(&mut self, version: &Version) -> Option<ArrowReaderMetadata> {
        let place = self.kept.iter().position(|(kept, ..)| kept == version)?;
        let found = self.kept.remove(place)?;
        let metadata = found.1.clone();
        self.kept.push_back(found);
        Some(metadata)
    }

    /// Takes in the metadata of a version, which replace those of others of its object; what was used longest ago goes.
    pub fn insert(&mut self, version: &Version, metadata: &ArrowReaderMetadata) {
        let size_bytes = metadata.metadata().memory_size() as u64;
        self.remove(|kept| kept.object() == version.object());
        if size_bytes > self.budget_bytes {
            return;
        }
        while self.used_bytes + size_bytes > self.budget_bytes {
            let Some((.., size_bytes)) = self.kept.pop_front() else { break };
            self.used_bytes -= size_bytes;
        }
        self.used_bytes += size_bytes;
        self.kept.push_back((version.clone(), metadata.clone(), size_bytes));
    }

    fn remove(&mut self, is_one: impl Fn(&Version) -> bool) {
        let used_bytes = &mut self.used_bytes;
        self.kept.retain(|(version, _, size_bytes)| {
            let stays = !is_one(version);
            *used_bytes -= if stays { 0 } else { *size_bytes };
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::{ObjectId, Stamp};

    fn metadata() -> ArrowReaderMetadata {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        ArrowReaderMetadata::load(&file, Default::default()).unwrap()
    }

    fn version(path: &str, tag: &str) -> Version {
        Version::new(ObjectId::new("s3://a", path.into()), Stamp::ETag(tag.to_owned()))
    }

    #[test]
    fn the_oldest_goes_and_versions_replace_each_other() {
        let metadata = metadata();
        let each = metadata.metadata().memory_size() as u64;
        let mut footers = Footers::new(2 * each);
        for path in ["x", "y"] {
            footers.insert(&version(path, "1"), &metadata);
        }
        assert!(footers.get(&version("x", "1")).is_some());
        footers.insert(&version("z", "1"), &metadata);
        assert!(footers.get(&version("y", "1")).is_none(), "x was used after it");
        footers.insert(&version("x", "2"), &metadata);
        assert!(footers.get(&version("x", "1")).is_none() && footers.get(&version("x", "2")).is_some());
        assert!(footers.get(&version("z", "1")).is_some());
        assert_eq!(footers.used_bytes, 2 * each);
        let mut none = Footers::new(each - 1);
        none.insert(&version("x", "1"), &metadata);
        assert!(none.get(&version("x", "1")).is_none() && none.used_bytes == 0);
    }
}
