//! Arrays as blocks, without a file around them: what a cache holds.
//!
//! A block of an array is that of a file whose row group has the block's rows and no others, bit for bit: then nothing is shared between
//! blocks, and each needs nothing beside it but its own large values.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use entasis_encoding::{
    Ask, BLOCK_ROWS, BitBuffer, Block, ChunkEncoder, Decoded, EncodeOptions, EncodedBlock, Filter, FilterWork,
    Physical, Selection, VECTOR_ROWS,
};

use crate::{
    arrow::{bits_of, empty_decoded, physical_of, plain_array, to_arrow, with_column},
    error::{Error, Result},
    views::told_by_views,
    write::{BLOCK_BYTES, VECTOR_BYTES, decoded_size},
    zone::Zone,
};

/// Rows of an array that a filter looks at together.
const FILTERED_ROWS: usize = 8 * VECTOR_ROWS;

/// Some rows of an array as a block.
#[derive(Debug, Clone)]
pub struct ArrayBlock {
    /// The block.
    pub encoded: EncodedBlock,
    /// Its statistics.
    pub zone: Zone,
    /// Its values of 16 KiB and more, each at the offset by which the block knows it. Only these offsets tell the block from that of a
    /// file, where large values lie elsewhere.
    pub large: Vec<u8>,
}

/// Encodes an array of a leaf: a column that isn't a struct, or a struct's validity as booleans. A block ends after 65,536 rows, and before
/// at the first multiple of 1,024 at which its rows decode to 8 MiB.
///
/// # Errors
/// Unsupported are types without blocks, and 1,024 rows that decode to more than 128 MiB.
pub fn encode_array(array: &ArrayRef, options: &EncodeOptions) -> Result<Vec<ArrayBlock>> {
    let array = plain_array(array)?;
    let physical = physical_of(array.data_type())?;
    let (mut blocks, mut first, mut block_bytes) = (Vec::new(), 0, 0);
    for start in (0..array.len()).step_by(VECTOR_ROWS) {
        let end = (start + VECTOR_ROWS).min(array.len());
        let vector_bytes = decoded_size(&array, start..end).inline;
        if vector_bytes > VECTOR_BYTES {
            return Err(Error::Unsupported(format!("{vector_bytes} bytes in rows {start} to {end} of a block")));
        }
        block_bytes += vector_bytes;
        if end == array.len() || end - first == BLOCK_ROWS || block_bytes >= BLOCK_BYTES {
            blocks.push(encode_block(&array.slice(first, end - first), &physical, options)?);
            (first, block_bytes) = (end, 0);
        }
    }
    Ok(blocks)
}

fn encode_block(array: &ArrayRef, physical: &Physical, options: &EncodeOptions) -> Result<ArrayBlock> {
    let mut large = Vec::new();
    let (encoded, zone) = with_column(array, |column| {
        let encoded = ChunkEncoder::new(physical.clone(), options.clone()).encode(column, true, &mut |value| {
            let offset = large.len() as u64;
            large.extend_from_slice(value);
            Ok(offset)
        })?;
        let zone = Zone::of(column, encoded.distinct);
        Ok::<_, Error>((encoded, zone))
    })??;
    Ok(ArrayBlock { encoded, zone, large })
}

/// Rows of blocks, one after the other, as one array of `data_type`.
///
/// # Errors
/// Corrupt if a block is, an invalid argument if its values aren't what the type can hold or it has fewer rows.
pub fn decode_rows<'a>(
    blocks: impl IntoIterator<Item = (&'a Block, Range<usize>)>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let mut decoded = empty_decoded(data_type)?;
    for (number, (block, rows)) in blocks.into_iter().enumerate() {
        block.decode(rows, &mut decoded).map_err(|error| in_memory(error, number))?;
    }
    to_arrow(decoded, data_type)
}

/// The selected rows of blocks, one after the other, as one array of `data_type`; a selection has as many rows as its block.
///
/// # Errors
/// As [`decode_rows`].
pub fn select_rows<'a>(
    blocks: impl IntoIterator<Item = (&'a Block, &'a Selection)>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let mut decoded = empty_decoded(data_type)?;
    for (number, (block, selection)) in blocks.into_iter().enumerate() {
        block.select(selection, &mut decoded).map_err(|error| in_memory(error, number))?;
    }
    to_arrow(decoded, data_type)
}

/// Keeps the rows of `selection` that pass, of an array that isn't encoded. The filter is of the array's physical type.
///
/// # Errors
/// An invalid argument if the selection is of another length, unsupported are arrays of lists and structs.
pub fn filter_array(filter: &Filter, array: &ArrayRef, selection: &mut Selection, work: &mut FilterWork) -> Result<()> {
    if selection.rows() != array.len() {
        let what = format!("a selection of {} rows for an array of {}", selection.rows(), array.len());
        return Err(Error::InvalidArgument(what));
    }
    if let Some(passes) = told_by_views(filter, array, selection) {
        work.decoded_values += selection.count() as u64;
        let mut fallen = Selection::all(array.len());
        fallen.subtract(&Selection::from_bits(&passes));
        selection.subtract(&fallen);
        return Ok(());
    }
    let array = plain_array(array)?;
    // Some at a time: what is known of the rows stays in the processor's nearest caches, and nothing is of stretches that fell.
    for first in (0..array.len()).step_by(FILTERED_ROWS) {
        let rows = FILTERED_ROWS.min(array.len() - first);
        let vectors = first / VECTOR_ROWS..(first + rows).div_ceil(VECTOR_ROWS);
        if vectors.clone().all(|vector| selection.count_in(vector) == 0) {
            continue;
        }
        let mut part = Selection::none(rows);
        selection.swap(vectors.clone(), &mut part, 0);
        let filtered = with_column(&array.slice(first, rows), |column| filter.apply_lent(column, &mut part, work));
        selection.swap(vectors, &mut part, 0);
        filtered??;
    }
    Ok(())
}

/// A bit for each value, set where it is `wanted`, and no null.
pub fn passing(values: &BooleanArray, wanted: bool) -> BitBuffer {
    let mut passing = BitBuffer::default();
    let nulls = values.nulls().map(|nulls| bits_of(nulls.inner()));
    let values = bits_of(values.values());
    for row in (0..values.len()).step_by(64) {
        let word = if wanted { values.word(row) } else { !values.word(row) };
        let valid = nulls.map_or(u64::MAX, |nulls| nulls.word(row));
        passing.extend_word(word & valid, (values.len() - row).min(64));
    }
    passing
}

/// A filter of the values for which `passes` has a bit, of arrays of `data_type`, and of nulls if `nulls`. Values that stand for many
/// rows of a block, those of dictionaries and runs, are asked about once.
///
/// # Errors
/// Unsupported are types without blocks. What `passes` ends with, the filter ends with.
pub fn asking(
    data_type: &DataType,
    nulls: bool,
    passes: impl Fn(&ArrayRef) -> Result<BitBuffer> + Send + Sync + 'static,
) -> Result<Filter> {
    let (data_type, empty) = (data_type.clone(), empty_decoded(data_type)?);
    let physical = physical_of(&data_type)?;
    Ok(Filter::asking(Arc::new(Asked { data_type, empty, passes }), nulls, &physical))
}

/// What somebody says of values as an array.
struct Asked<F> {
    data_type: DataType,
    empty: Decoded,
    passes: F,
}

impl<F: Fn(&ArrayRef) -> Result<BitBuffer> + Send + Sync> Ask for Asked<F> {
    fn empty(&self) -> Decoded {
        self.empty.empty_like()
    }

    fn ask(&self, values: Decoded, out: &mut BitBuffer) -> entasis_encoding::Result<()> {
        let passes = to_arrow(values, &self.data_type).and_then(|values| (self.passes)(&values));
        let passes = passes.map_err(|error| entasis_encoding::Error::InvalidArgument(error.to_string()))?;
        out.extend_bits(passes.bits());
        Ok(())
    }
}

impl<F> fmt::Debug for Asked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked of {}", self.data_type)
    }
}

fn in_memory(error: entasis_encoding::Error, number: usize) -> Error {
    Error::in_block(error, "cell", &format!("block {number}"), 0)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, RecordBatch, StringArray};
    use bytes::Bytes;
    use entasis_encoding::{Comparison, FloatOrder, LargeValues, Like, Limits, Parts, Predicate, Scalar, digest};

    use super::*;
    use crate::{Reader, WriteOptions, Writer, generate};

    struct Region(Vec<u8>);

    impl LargeValues for Region {
        fn fetch(&self, offset: u64, size_bytes: u64) -> entasis_encoding::Result<Bytes> {
            Ok(Bytes::copy_from_slice(&self.0[offset as usize..(offset + size_bytes) as usize]))
        }
    }

    fn open(block: &ArrayBlock) -> Block {
        let (bytes, large) = (Bytes::from(block.encoded.bytes.clone()), Arc::new(Region(block.large.clone())));
        Block::open(bytes, &Parts::new(), Some(large), &Limits::default()).unwrap()
    }

    /// The digests of the blocks of a file of one column and one row group.
    fn digests_in_file(array: &ArrayRef) -> Vec<u64> {
        let batch = RecordBatch::try_from_iter_with_nullable([("a", array.clone(), true)]).unwrap();
        // The writer knows that no row follows in the row group.
        let options = WriteOptions { row_group_rows: array.len() as u64, ..WriteOptions::default() };
        let mut writer = Writer::new(Vec::new(), batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.finish().unwrap().0);
        let reader = Reader::from_bytes(file.clone()).unwrap();
        let record = reader.column(0).unwrap();
        assert!(record.chunks.iter().all(|chunk| chunk.parts.is_empty()), "nothing is shared");
        let blocks = record.chunks.iter().flat_map(|chunk| &chunk.blocks);
        blocks.map(|block| digest(&file[block.range().start as usize..block.range().end as usize])).collect()
    }

    fn tall() -> Vec<ArrayRef> {
        let rows = 0..BLOCK_ROWS as i32;
        let texts = rows.clone().map(|row| (row % 7 != 0).then(|| format!("/page/{}?from={}", row % 900, row / 11)));
        vec![
            Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| row / 3 * 5 % 10_007))),
            Arc::new(Float64Array::from_iter(
                rows.clone().map(|row| (row % 5 != 0).then(|| f64::from(row % 999) / 8.0)),
            )),
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(BooleanArray::from_iter(rows.map(|row| Some(row % 64 < 9)))),
        ]
    }

    #[test]
    fn blocks_are_those_of_a_row_group_of_the_same_rows() {
        for array in tall() {
            let blocks = encode_array(&array, &EncodeOptions::default()).unwrap();
            let digests: Vec<u64> = blocks.iter().map(|block| block.encoded.digest()).collect();
            assert_eq!(digests.len(), 1, "{}", array.data_type());
            assert_eq!(digests, digests_in_file(&array), "{}", array.data_type());
        }
    }

    #[test]
    fn wide_rows_end_blocks_where_a_file_ends_them() {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..9_000).map(|row| format!("{row:02000}"))));
        let blocks = encode_array(&texts, &EncodeOptions::default()).unwrap();
        let rows: Vec<usize> = blocks.iter().map(|block| block.encoded.rows).collect();
        assert_eq!(rows, [5_120, 3_880]);
        let opened: Vec<Block> = blocks.iter().map(open).collect();
        assert_eq!(
            &decode_rows(opened.iter().map(|block| (block, 0..block.rows())), texts.data_type()).unwrap(),
            &texts
        );
        let alone = texts.slice(0, 5_120);
        assert_eq!(
            blocks[0].encoded.digest(),
            digests_in_file(&alone)[0],
            "each is the block of a row group of its rows"
        );
    }

    #[test]
    fn every_type_comes_back() {
        for seed in 0..40 {
            let mut random = generate::Generator::new(seed);
            let schema = random.schema(4);
            let batch = random.batch(&schema, 1_500);
            for (field, array) in schema.fields().iter().zip(batch.columns()) {
                let blocks = encode_array(array, &EncodeOptions::default()).unwrap();
                let opened: Vec<Block> = blocks.iter().map(open).collect();
                let whole =
                    decode_rows(opened.iter().map(|block| (block, 0..block.rows())), field.data_type()).unwrap();
                assert!(
                    crate::compare::first_array_difference(&whole, array).unwrap().is_none(),
                    "seed {seed}, {field}"
                );
            }
        }
    }

    #[test]
    fn decoded_and_encoded_rows_answer_alike() {
        let predicates = [
            Predicate::Compare(Comparison::Less, Scalar::Int(5_000), FloatOrder::default()),
            Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Float(60.0), FloatOrder::default()),
            Predicate::Like(Like { pattern: b"%9?from=1%".to_vec(), escape: None, negated: false }),
            Predicate::Compare(Comparison::Equal, Scalar::Bool(true), FloatOrder::default()),
            Predicate::IsNull,
            Predicate::IsNotNull,
        ];
        for array in tall() {
            let block = open(&encode_array(&array, &EncodeOptions::default()).unwrap()[0]);
            for predicate in &predicates {
                let filter = Filter::new(predicate, block.physical());
                let thirds = Selection::from_bits(&(0..array.len()).map(|row| row % 3 == 0).collect());
                let (mut encoded, mut decoded) = (thirds.clone(), thirds);
                filter.apply(&block, &mut encoded, &mut FilterWork::default()).unwrap();
                filter_array(&filter, &array, &mut decoded, &mut FilterWork::default()).unwrap();
                assert_eq!(encoded, decoded, "{predicate} on {}", array.data_type());
                let selected = select_rows([(&block, &encoded)], array.data_type()).unwrap();
                assert_eq!(selected.len(), encoded.count());
            }
        }
    }
}
