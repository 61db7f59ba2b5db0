//! What decoding a block takes at least, from its head alone. See *Bounds* in `spec/block.md`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::head::NodeRecord;
use crate::Physical;
use crate::encodings::{Encoding, validity::Validity};
use crate::error::{Error, Result};

/// The nodes of a block may have so many times the rows that fit into what it declares: cascades are that deep, and no more.
const NODES_FACTOR: u64 = 8;
/// What nodes keep once they have decoded it may be so many times what the block declares.
const KEPT_FACTOR: u64 = 4;

/// What the nodes of a block may take together. Each keeps to what the block declares; so do those whose values come out,
/// together, but a dictionary for one row may have any number of values.
#[derive(Debug)]
pub(crate) struct Budget {
    rows_bytes_left: AtomicU64,
    kept_bytes_left: AtomicU64,
}

impl Budget {
    /// The budget of a block that declares `decoded_bytes`.
    pub fn new(decoded_bytes: u64) -> Self {
        let times = |factor: u64| AtomicU64::new(decoded_bytes.saturating_mul(factor));
        Self { rows_bytes_left: times(NODES_FACTOR), kept_bytes_left: times(KEPT_FACTOR) }
    }

    /// Takes what the rows of one more node come to; false if that is more than is left.
    pub fn take_rows(&self, physical: &Physical, rows: usize) -> bool {
        let bytes = flat_bytes(physical, rows as u64);
        self.rows_bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// The value of `cell`, made when first needed and kept from then on. A failure isn't kept.
    ///
    /// # Errors
    /// Those of `make`; corrupt where the nodes of the block keep more than they may already.
    pub fn keep_once<'a, T>(
        &self,
        cell: &'a OnceLock<T>,
        make: impl FnOnce() -> Result<T>,
        size_bytes: impl FnOnce(&T) -> u64,
    ) -> Result<&'a T> {
        if let Some(value) = cell.get() {
            return Ok(value);
        }
        if self.kept_bytes_left.load(Ordering::Relaxed) == 0 {
            return Err(Error::corrupt("block", 0, "dictionaries and texts exceed what the block declares"));
        }
        let value = make()?;
        // Of several threads that make it, one keeps and counts it.
        Ok(cell.get_or_init(|| {
            let size_bytes = size_bytes(&value);
            let less = |left: u64| Some(left.saturating_sub(size_bytes));
            let _ = self.kept_bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            value
        }))
    }
}

/// Bytes that decoding the whole tree yields, byte strings' own bytes aside. Children that are missing count as nothing:
/// opening their parent refuses them.
pub(crate) fn least_decoded_bytes(physical: &Physical, record: &NodeRecord) -> u64 {
    let rows = record.rows as u64;
    let child =
        |index: usize, physical| record.children.get(index).map_or(0, |child| least_decoded_bytes(physical, child));
    if record.encoding == Validity.id() {
        // Packed values have fewer rows than they are spread over.
        return (4 * rows).saturating_add(child(1, physical).max(flat_bytes(physical, rows)));
    }
    match physical {
        Physical::List(item) => (4 * (rows + 1)).saturating_add(child(1, item)),
        Physical::FixedList(_, item) => (4 * rows).saturating_add(child(0, item)),
        Physical::Struct(fields) => {
            fields.iter().enumerate().fold(4 * rows, |sum, (index, field)| child(index, field).saturating_add(sum))
        }
        flat => flat_bytes(flat, rows),
    }
}

/// Bytes of `rows` values of a type, without what lies in children.
fn flat_bytes(physical: &Physical, rows: u64) -> u64 {
    match physical {
        Physical::Null | Physical::Bool => 4 * rows,
        Physical::Fixed(fixed) => rows * fixed.size_bytes().max(4) as u64,
        Physical::Bytes | Physical::List(_) => 4 * (rows + 1),
        Physical::FixedList(..) | Physical::Struct(_) => 4 * rows,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::block::head::EncodedNode;
    use crate::chooser::chunk::finished;
    use crate::encodings::dictionary::Dictionary;
    use crate::encodings::{Encoding, constant::Constant, nested::List, nested::Struct};
    use crate::wire::EntryPoints;
    use crate::{Block, BytesForm, Decoded, Error, Fixed, Limits, Parts, Physical};

    fn node(encoding: &dyn Encoding, rows: usize, parameters: Vec<u8>, children: Vec<EncodedNode>) -> EncodedNode {
        EncodedNode { encoding: encoding.id(), rows, parameters, buffers: Vec::new(), children }
    }

    fn open(root: &EncodedNode, physical: &Physical, decoded_bytes: u64) -> crate::Result<Block> {
        let bytes = Bytes::from(finished(root, physical, decoded_bytes, false).bytes);
        Block::open(bytes, &Parts::new(), None, &Limits::default())
    }

    #[test]
    fn one_list_of_four_thousand_million_empty_strings_is_refused() {
        let mut parameters = vec![Fixed::U32 as u8];
        EntryPoints::write(&[0], &mut parameters);
        let lengths = node(&Constant, 1, vec![0xFF; 4], vec![]);
        let items = node(&Constant, u32::MAX as usize, vec![], vec![]);
        let root = node(&List, 1, parameters, vec![lengths, items]);
        let opened = open(&root, &Physical::List(Box::new(Physical::Bytes)), 1 << 20);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }

    /// A block of some kilobytes, of fields of one row each, behind which dictionaries have a million values.
    #[test]
    fn values_that_no_row_has_keep_to_the_bound_together() {
        const FIELDS: usize = 60;
        let lanes = |rows| node(&Constant, rows, vec![1; 8], vec![]);
        let dictionary = |values| node(&Dictionary, 1, vec![0], vec![node(&Constant, 1, vec![0; 4], vec![]), values]);
        let physical = Physical::Struct(vec![Physical::Fixed(Fixed::I64); FIELDS]);
        let root = node(&Struct, 1, vec![], vec![dictionary(lanes(1 << 20)); FIELDS]);
        let opened = open(&root, &physical, 8 << 20);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
        // Of byte strings, which show their length only when they are decoded.
        let strings = |rows| {
            node(
                &Dictionary,
                rows,
                vec![0],
                vec![node(&Constant, rows, vec![0], vec![]), node(&Constant, 1, vec![b'a'; 10_000], vec![])],
            )
        };
        let dictionary = |values| node(&Dictionary, 1, vec![0], vec![node(&Constant, 1, vec![0; 2], vec![]), values]);
        let physical = Physical::Struct(vec![Physical::Bytes; FIELDS]);
        let root = node(&Struct, 1, vec![], vec![dictionary(strings(700)); FIELDS]);
        let block = open(&root, &physical, 8 << 20).unwrap();
        let decoded = block.decode(0..1, &mut Decoded::new(&physical, BytesForm::Offsets32));
        assert!(matches!(decoded, Err(Error::Corrupt { .. })), "{decoded:?}");
    }

    #[test]
    fn the_fields_of_a_struct_keep_to_the_bound_together() {
        const ROWS: usize = 1000;
        let field = node(&Constant, ROWS, vec![b'a'; 100], vec![]);
        let decode = |fields: usize| {
            let physical = Physical::Struct(vec![Physical::Bytes; fields]);
            let block = open(&node(&Struct, ROWS, vec![], vec![field.clone(); fields]), &physical, 500_000).unwrap();
            block.decode(0..ROWS, &mut Decoded::new(&physical, BytesForm::Offsets32))
        };
        decode(4).unwrap();
        assert!(matches!(decode(6), Err(Error::Corrupt { .. })));
    }
}
