//! The memory that cells hold, to the byte: each allocation once, however many arrays or cells share it.

use std::collections::{HashMap, hash_map};

use arrow_array::Array;
use arrow_data::ArrayData;
use bytes::Bytes;

/// What the cache itself needs for a cell, beside its values: names, places in the policy's lists, the head of its array.
pub const CELL_OVERHEAD_BYTES: u64 = 1_024;

/// Memory that is allocated and given back as one, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Allocation {
    address: usize,
    size_bytes: u64,
}

/// The memory of one cell: each allocation once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holdings(Vec<Allocation>);

impl Holdings {
    /// The buffers of an array, whole, though the array may be a slice of them.
    pub fn of_array(array: &dyn Array) -> Self {
        fn collect(data: &ArrayData, out: &mut Vec<Allocation>) {
            let nulls = data.nulls().map(|nulls| nulls.buffer());
            for buffer in data.buffers().iter().chain(nulls) {
                let address = buffer.data_ptr().as_ptr().addr();
                out.push(Allocation { address, size_bytes: buffer.capacity() as u64 });
            }
            data.child_data().iter().for_each(|child| collect(child, out));
        }
        let mut allocations = Vec::new();
        collect(&array.to_data(), &mut allocations);
        Self::once(allocations)
    }

    /// Allocations by their addresses and bytes.
    pub fn new(allocations: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let allocation = |(address, size_bytes)| Allocation { address, size_bytes };
        Self::once(allocations.into_iter().map(allocation).collect())
    }

    /// Bytes, none of which is a slice of others.
    pub fn of_bytes<'a>(all: impl IntoIterator<Item = &'a Bytes>) -> Self {
        Self::new(all.into_iter().map(|bytes| (bytes.as_ptr().addr(), bytes.len() as u64)))
    }

    fn once(mut allocations: Vec<Allocation>) -> Self {
        allocations.retain(|allocation| allocation.size_bytes > 0);
        allocations.sort_unstable();
        allocations.dedup_by_key(|allocation| allocation.address);
        Self(allocations)
    }

    /// Bytes of the cell by itself, with what the cache needs for it.
    pub fn size_bytes(&self) -> u64 {
        CELL_OVERHEAD_BYTES + self.0.iter().map(|allocation| allocation.size_bytes).sum::<u64>()
    }
}

/// The memory of all cells together.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By address: cells that hold it, and its bytes. An address means one allocation as long as a cell holds it.
    allocations: HashMap<usize, (usize, u64)>,
    used_bytes: u64,
}

impl Ledger {
    /// Bytes that cells hold.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes that a cell would add: what no other holds.
    pub fn added_bytes(&self, holdings: &Holdings) -> u64 {
        let new = holdings.0.iter().filter(|allocation| !self.allocations.contains_key(&allocation.address));
        CELL_OVERHEAD_BYTES + new.map(|allocation| allocation.size_bytes).sum::<u64>()
    }

    /// Bytes that cells would hold if one of them held `after` instead of `before`.
    pub fn used_bytes_after(&self, before: &Holdings, after: &Holdings) -> u64 {
        let stays = |allocation: &Allocation| {
            let cells = self.allocations.get(&allocation.address).map_or(0, |(cells, _)| *cells);
            let is_in = |holdings: &Holdings| holdings.0.iter().any(|other| other.address == allocation.address);
            cells > usize::from(is_in(before))
        };
        let own = |holdings: &Holdings| -> u64 {
            holdings.0.iter().filter(|allocation| !stays(allocation)).map(|allocation| allocation.size_bytes).sum()
        };
        self.used_bytes - own(before) + own(after)
    }

    /// A cell comes in.
    pub fn add(&mut self, holdings: &Holdings) {
        self.used_bytes += CELL_OVERHEAD_BYTES;
        for allocation in &holdings.0 {
            let (cells, _) = self.allocations.entry(allocation.address).or_insert((0, allocation.size_bytes));
            *cells += 1;
            if *cells == 1 {
                self.used_bytes += allocation.size_bytes;
            }
        }
    }

    /// A cell goes that came in with these.
    pub fn remove(&mut self, holdings: &Holdings) {
        self.used_bytes -= CELL_OVERHEAD_BYTES;
        for allocation in &holdings.0 {
            let hash_map::Entry::Occupied(mut held) = self.allocations.entry(allocation.address) else { continue };
            held.get_mut().0 -= 1;
            if held.get().0 == 0 {
                self.used_bytes -= held.remove().1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray, StructArray, types::Int32Type};
    use arrow_schema::{DataType, Field};

    use super::*;

    /// The bytes of an array's buffers by Arrow's own count, which counts the array's head as well.
    fn by_arrow(array: &dyn Array) -> u64 {
        (array.get_buffer_memory_size()) as u64
    }

    #[test]
    fn arrays_take_what_their_buffers_do() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..1_000).map(|row| (row % 3 > 0).then_some(row))));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000).map(|row| format!("text {row}"))));
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
        let nested: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![numbers.clone(), texts.clone()], None));
        for array in [&numbers, &texts, &nested] {
            let holdings = Holdings::of_array(array);
            assert_eq!(holdings.size_bytes(), by_arrow(array) + CELL_OVERHEAD_BYTES, "{}", array.data_type());
        }
        let sliced = Holdings::of_array(&numbers.slice(10, 5));
        assert_eq!(sliced, Holdings::of_array(&numbers), "a slice keeps all of it alive");
    }

    #[test]
    fn what_cells_share_counts_once() {
        let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..500).map(|row| format!("value {row}"))));
        let dictionary = |start: i32| {
            let keys = Int32Array::from_iter_values((0..2_000).map(|row| (row + start) % 500));
            DictionaryArray::<Int32Type>::new(keys, values.clone())
        };
        let cells = [dictionary(0), dictionary(7), dictionary(99)].map(|array| Holdings::of_array(&array));
        let shared = by_arrow(&values);
        let mut ledger = Ledger::default();
        for (count, cell) in cells.iter().enumerate() {
            let own = cell.size_bytes() - shared;
            assert_eq!(ledger.added_bytes(cell), if count == 0 { own + shared } else { own });
            ledger.add(cell);
        }
        let owns: u64 = cells.iter().map(|cell| cell.size_bytes() - shared).sum();
        assert_eq!(ledger.used_bytes(), owns + shared);
        for (before, after) in
            [(&cells[0], &cells[1]), (&cells[1], &Holdings::of_array(&Int64Array::from(vec![1; 99])))]
        {
            let mut swapped = Ledger::default();
            cells.iter().for_each(|cell| swapped.add(cell));
            swapped.remove(before);
            swapped.add(after);
            assert_eq!(ledger.used_bytes_after(before, after), swapped.used_bytes());
        }
        ledger.remove(&cells[0]);
        assert_eq!(ledger.used_bytes(), owns + shared - (cells[0].size_bytes() - shared));
        ledger.remove(&cells[2]);
        ledger.remove(&cells[1]);
        assert_eq!(ledger.used_bytes(), 0);
        assert!(ledger.allocations.is_empty());
    }
}
