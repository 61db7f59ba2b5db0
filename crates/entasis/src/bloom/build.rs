//! The Bloom filters of a chunk, made from the hashes of its blocks.

use entasis_encoding::Column;

use super::{
    bucket::{BUCKET_BYTES, bucket_of, insert},
    hash::hashes_of,
    layout::BloomLayout,
    size::buckets_for,
};

/// The hashes of a block's values, ascending, each once.
pub fn distinct_hashes(column: &Column<'_>) -> Vec<u64> {
    let mut hashes = hashes_of(column);
    hashes.sort_unstable();
    hashes.dedup();
    hashes.shrink_to_fit();
    hashes
}

/// The filters of blocks of which these are the hashes, as they lie in the file, and how; `None` if they would take more
/// than `most_bytes`.
pub fn filters(blocks: &[Vec<u64>], rate: f64, most_bytes: u64) -> Option<(BloomLayout, Vec<u8>)> {
    let buckets = buckets_for(blocks.iter().map(Vec::len).max()?, rate);
    let layout = BloomLayout::new(blocks.len(), buckets)?;
    if layout.size_bytes() > most_bytes {
        return None;
    }
    let mut stripes = vec![[0; BUCKET_BYTES]; blocks.len() * buckets as usize];
    for (number, hashes) in blocks.iter().enumerate() {
        for &hash in hashes {
            insert(&mut stripes[bucket_of(hash, buckets) as usize * blocks.len() + number], hash);
        }
    }
    Some((layout, layout.seal(stripes.as_flattened())))
}
