//! What decoding a block takes at least, from its head alone. See *Bounds* in `spec/block.md`.

use super::head::NodeRecord;
use crate::Physical;
use crate::encodings::{Encoding, validity::Validity};

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
