//! Reading every byte of decoded tables, so that no decoder wins by leaving work to whoever reads the values.

use std::collections::HashSet;

use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;

/// Buffers below this are read again rather than remembered.
const SMALL_BYTES: usize = 1024;

/// Adds up all buffers of batches that come one after the other. A buffer that two neighbouring batches share (a dictionary)
/// is read once: it was decoded once.
#[derive(Default)]
pub struct Touch {
    sum: u64,
    seen: HashSet<(usize, usize)>,
    /// Kept until the next batch is there, so that an equal address means the same buffer.
    previous: Option<RecordBatch>,
}

impl Touch {
    /// Reads a batch.
    pub fn batch(&mut self, batch: RecordBatch) {
        let mut sum = 0u64;
        let seen = new_buffers(&batch, &self.seen, |bytes| sum = sum.wrapping_add(fold(bytes)));
        self.sum = self.sum.wrapping_add(sum);
        self.seen = seen;
        self.previous = Some(batch);
    }

    /// A sum over all that was read.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// The floor for every decoder: copies of the buffers of `batches`, batch by batch, read like a decoder's output.
pub fn copy(batches: &[RecordBatch]) -> u64 {
    let mut sum = 0u64;
    let mut seen = HashSet::new();
    let mut previous = Vec::new();
    for batch in batches {
        let mut copies = Vec::new();
        seen = new_buffers(batch, &seen, |bytes| copies.push(bytes.to_vec()));
        copies.iter().for_each(|copy| sum = sum.wrapping_add(fold(copy)));
        previous = copies;
    }
    drop(previous);
    sum
}

/// Bytes of all buffers of `batches`, each counted once.
pub fn size_bytes(batches: &[RecordBatch]) -> u64 {
    let mut size_bytes = 0;
    let mut seen = HashSet::new();
    for batch in batches {
        visit_batch(batch, &mut |bytes| {
            if seen.insert((bytes.as_ptr() as usize, bytes.len())) {
                size_bytes += bytes.len() as u64;
            }
        });
    }
    size_bytes
}

/// Calls `visit` with the buffers that aren't among `seen`; the batch's own, to be the `seen` of the next.
fn new_buffers(
    batch: &RecordBatch,
    seen: &HashSet<(usize, usize)>,
    mut visit: impl FnMut(&[u8]),
) -> HashSet<(usize, usize)> {
    let mut own = HashSet::new();
    visit_batch(batch, &mut |bytes| {
        let key = (bytes.as_ptr() as usize, bytes.len());
        if bytes.len() < SMALL_BYTES || (own.insert(key) && !seen.contains(&key)) {
            visit(bytes);
        }
    });
    own
}

fn visit_batch(batch: &RecordBatch, visit: &mut dyn FnMut(&[u8])) {
    batch.columns().iter().for_each(|column| visit_data(&column.to_data(), visit));
}

fn visit_data(data: &ArrayData, visit: &mut dyn FnMut(&[u8])) {
    if let Some(nulls) = data.nulls() {
        visit(nulls.validity());
    }
    data.buffers().iter().for_each(|buffer| visit(buffer.as_slice()));
    data.child_data().iter().for_each(|child| visit_data(child, visit));
}

/// Adds up a buffer's words, fast enough to cost little more than reading them.
pub fn fold(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<64>();
    let mut lanes = [0u64; 8];
    for chunk in chunks {
        let (words, _) = chunk.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    let tail = rest.iter().fold(0u64, |sum, byte| sum.wrapping_add(u64::from(*byte)));
    lanes.into_iter().fold(tail, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    fn batch(first: i64) -> RecordBatch {
        let values = Arc::new(Int64Array::from_iter_values(first..first + 1000)) as ArrayRef;
        RecordBatch::try_from_iter([("x", values)]).unwrap()
    }

    #[test]
    fn everything_is_read_once() {
        let (one, two) = (batch(0), batch(1000));
        let mut touch = Touch::default();
        [&one, &one, &two].into_iter().for_each(|batch| touch.batch(batch.clone()));
        assert_eq!(touch.sum(), (0..2000).sum::<u64>());
        assert_eq!(copy(&[one.clone(), two.clone()]), touch.sum());
        assert_eq!(size_bytes(&[one.clone(), one, two]), 16_000);
    }

    #[test]
    fn no_byte_is_left_out() {
        for length in 0..200 {
            let mut bytes = vec![0u8; length];
            for at in 0..length {
                bytes[at] = 1;
                assert_ne!(fold(&bytes), 0, "byte {at} of {length}");
                bytes[at] = 0;
            }
        }
    }
}
