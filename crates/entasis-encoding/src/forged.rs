//! Forged blocks: nodes that contradict each other under checksums that are right. Whatever they claim, no path to a row may
//! panic, and no two paths may give different values of the same row.

use bytes::Bytes;

use crate::aggregate::naive;
use crate::block::head::EncodedNode;
use crate::chooser::chunk::{decoded_size_bytes, finished};
use crate::chooser::{EncodeOptions, Encoder};
use crate::encodings::REGISTRY;
use crate::testing::{Cell, Owned, Random, Shape, cells_of, made_node};
use crate::{
    AggregateWork, Aggregates, Block, BytesForm, Decoded, Fixed, Limits, Parts, Physical, Selection, VECTOR_ROWS,
    Wanted,
};

/// What a path gives for rows; `None` where it refuses them.
fn rows_by(block: &Block, form: BytesForm, path: impl FnOnce(&mut Decoded) -> crate::Result<()>) -> Option<Vec<Cell>> {
    let mut out = Decoded::new(block.physical(), form);
    path(&mut out).ok().map(|()| cells_of(&out))
}

/// Asks for rows by every path. Values that two paths give of a row have to be the same.
fn agree(block: &Block, random: &mut Random, context: &str) {
    let rows = block.rows();
    let mut known: Vec<Option<Cell>> = vec![None; rows];
    let mut learn = |path: &str, rows: &mut dyn Iterator<Item = usize>, cells: Option<Vec<Cell>>| {
        for (row, cell) in rows.zip(cells.into_iter().flatten()) {
            match &known[row] {
                Some(before) => assert_eq!(*before, cell, "{context}: row {row} by {path}"),
                None => known[row] = Some(cell),
            }
        }
    };
    for form in [BytesForm::Offsets32, BytesForm::Offsets64, BytesForm::Views] {
        learn("whole", &mut (0..rows), rows_by(block, form, |out| block.decode(0..rows, out)));
        for start in (0..rows).step_by(VECTOR_ROWS) {
            let end = rows.min(start + VECTOR_ROWS);
            learn("vector", &mut (start..end), rows_by(block, form, |out| block.decode(start..end, out)));
        }
        for _ in 0..3 {
            let start = random.below(rows + 1);
            let end = start + random.below(rows - start + 1);
            learn("range", &mut (start..end), rows_by(block, form, |out| block.decode(start..end, out)));
        }
        if rows > 0 {
            let picked: Vec<u32> = (0..30).map(|_| random.below(rows) as u32).collect();
            let cells = rows_by(block, form, |out| block.get(&picked, out));
            learn("get", &mut picked.iter().map(|&row| row as usize), cells);
            for &row in &picked[..10] {
                let cells = rows_by(block, form, |out| block.get(&[row], out));
                learn("get of one", &mut std::iter::once(row as usize), cells);
            }
        }
        let selection = Selection::from_bits(&(0..rows).map(|row| row / 300 % 3 == 0 || row % 7 == 2).collect());
        let cells = rows_by(block, form, |out| block.select(&selection, out));
        learn("select", &mut selection.iter(), cells);
    }
    let (mut work, mut found) = (AggregateWork::default(), Aggregates::default());
    if block.aggregate(&Selection::all(rows), Wanted::ALL, &mut work, &mut found).is_ok() {
        let cells: Option<Vec<Cell>> = known.into_iter().collect();
        let expected = cells.map(|cells| naive(cells.iter(), block.physical(), Wanted::ALL));
        assert!(expected.is_none_or(|expected| found.is_same(&expected)), "{context}: {found:?} by aggregate");
    }
}

fn open(node: &EncodedNode, physical: &Physical, decoded_bytes: u64) -> Option<Block> {
    let bytes = Bytes::from(finished(node, physical, decoded_bytes, false).bytes);
    Block::open(bytes, &Parts::new(), None, &Limits { decoded_bytes: 1 << 22 }).ok()
}

fn physicals() -> Vec<Physical> {
    let item = Box::new(Physical::Fixed(Fixed::I32));
    let mut all =
        vec![Physical::Bool, Physical::Bytes, Physical::List(item), Physical::List(Box::new(Physical::Bytes))];
    all.extend([Fixed::U8, Fixed::I32, Fixed::F64, Fixed::I128].map(Physical::Fixed));
    all
}

#[test]
fn paths_to_rows_of_forged_blocks_agree() {
    let mut random = Random::new(51);
    let options = EncodeOptions::default();
    for physical in physicals() {
        for encoding in REGISTRY {
            for shape in Shape::ALL {
                let owned = Owned::generate(&physical, shape, 2500, encoding.id() % 2 == 1, &mut random);
                let column = owned.column();
                let Ok(node) = Encoder::forcing(&options, encoding.id()).root(&column) else { continue };
                for _ in 0..8 {
                    let mut forged = node.clone();
                    for _ in 0..1 + random.below(2) {
                        forged.forge(&mut random);
                    }
                    let Some(block) = open(&forged, &physical, decoded_size_bytes(&column, false) * 2) else {
                        continue;
                    };
                    let context = format!("{physical}, {}, {shape:?}", block.cascade().words());
                    agree(&block, &mut random, &context);
                }
            }
        }
    }
}

/// Short phrases by the million take long and save nothing; a stack of them would take that long again and again.
#[test]
fn phrases_of_single_bytes_are_refused() {
    const ROWS: usize = 1000;
    let constant = |rows, value: &[u8]| made_node(2, rows, value, vec![]);
    let open_with = |phrases_each: u8, decoded_bytes| {
        let phrases = ROWS * usize::from(phrases_each);
        let children = vec![
            constant(ROWS, &[phrases_each]),
            constant(ROWS, b""),
            constant(phrases, &[0]),
            // One byte from the text's beginning.
            constant(phrases, &[0; 4]),
            constant(1, b"x"),
        ];
        open(&made_node(18, ROWS, &[2, 2, 0, 0], children), &Physical::Bytes, decoded_bytes)
    };
    let block = open_with(1, 8 * ROWS as u64).unwrap();
    assert_eq!(rows_by(&block, BytesForm::Views, |out| block.get(&[7], out)), Some(vec![Cell::Bytes(b"x".to_vec())]));
    assert!(open_with(2, 8 * ROWS as u64).is_none());
}
