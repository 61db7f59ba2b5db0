//! What a cell holds, and what is asked of it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use arrow_select::filter::filter;
use arrow_select::take::take;
use bytes::Bytes;
use entasis::blocks::{decode_rows, encode_array, filter_array, select_rows};
use entasis::zone::Zone;
use entasis_encoding::{
    Block, EncodeOptions, Filter, FilterWork, LargeValues, Limits, Parts, Physical, Selection, VECTOR_ROWS, Verified,
    digest,
};

use crate::ledger::Holdings;
use crate::read::Pages;
use crate::{Error, Result};

/// The state of a cell that is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// As the source has it: pages of Parquet, which an asker decodes.
    Pages,
    /// As it was decoded from the source.
    Arrow,
    /// As blocks.
    Encoded,
}

/// The values of a cell in any state. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Pages(Arc<Pages>),
    Arrow(ArrayRef),
    Encoded(Arc<Encoded>),
}

impl Values {
    pub fn state(&self) -> State {
        match self {
            Values::Pages(_) => State::Pages,
            Values::Arrow(_) => State::Arrow,
            Values::Encoded(_) => State::Encoded,
        }
    }

    pub fn holdings(&self) -> Holdings {
        match self {
            Values::Pages(pages) => pages.holdings(),
            Values::Arrow(array) => Holdings::of_array(array),
            Values::Encoded(encoded) => encoded.holdings(),
        }
    }
}

/// A cell as blocks. They are kept as bytes and opened by those who ask: what an open block remembers of its values, as those of a
/// dictionary, is theirs, and the cache holds what it counts. What one has verified isn't verified again by the next.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub data_type: DataType,
    pub rows: usize,
    pub blocks: Vec<EncodedBlock>,
}

/// A block of a cell.
#[derive(Debug)]
pub(crate) struct EncodedBlock {
    pub rows: usize,
    pub bytes: Bytes,
    /// Its large values.
    pub large: Bytes,
    pub zone: Zone,
    /// What the first who opened it, and all after it, have verified.
    verified: OnceLock<Arc<Verified>>,
}

impl EncodedBlock {
    pub fn new(rows: usize, bytes: Bytes, large: Bytes, zone: Zone) -> Self {
        Self { rows, bytes, large, zone, verified: OnceLock::new() }
    }

    fn open(&self) -> entasis_encoding::Result<Block> {
        let (bytes, parts, limits) = (self.bytes.clone(), Parts::new(), Limits::default());
        let large: Option<Arc<dyn LargeValues + Send + Sync>> = Some(Arc::new(Region(self.large.clone())));
        let block = match self.verified.get() {
            Some(verified) => Block::open_again(bytes, &parts, large, &limits, verified)?,
            None => Block::open(bytes, &parts, large, &limits)?,
        };
        if let Some(verified) = block.verified() {
            self.verified.get_or_init(|| verified.clone());
        }
        Ok(block)
    }
}

impl Encoded {
    /// The blocks of an array. Unsupported are arrays without blocks.
    pub fn new(array: &ArrayRef, options: &EncodeOptions) -> Result<Self> {
        // Without spare capacity, so that bytes are what is allocated.
        let exact = |bytes: Vec<u8>| Bytes::from(bytes.into_boxed_slice());
        let blocks = encode_array(array, options)?.into_iter().map(|block| {
            EncodedBlock::new(block.encoded.rows, exact(block.encoded.bytes), exact(block.large), block.zone)
        });
        Ok(Self { data_type: array.data_type().clone(), rows: array.len(), blocks: blocks.collect() })
    }

    /// A cell of blocks that were made before: they must be of its type, and have as many rows as it is said that they have.
    pub fn of_blocks(data_type: DataType, physical: &Physical, rows: usize, blocks: Vec<EncodedBlock>) -> Result<Self> {
        let encoded = Self { data_type, rows, blocks };
        if encoded.bytes().is_some() {
            return Ok(encoded);
        }
        let opened = encoded.open()?;
        let mut pairs = opened.iter().zip(&encoded.blocks);
        let is_so = pairs.all(|(open, block)| open.rows() == block.rows && open.physical() == physical);
        if is_so && encoded.blocks.iter().map(|block| block.rows).sum::<usize>() == rows {
            return Ok(encoded);
        }
        Err(entasis::Error::InvalidArgument("blocks that are other than the cell says".to_owned()).into())
    }

    /// Bytes of an object that are no cell of a column: no type, no rows, and one block that isn't one by itself.
    pub fn of_bytes(bytes: Bytes) -> Self {
        let page = EncodedBlock::new(0, bytes, Bytes::new(), Zone::default());
        Self { data_type: DataType::Null, rows: 0, blocks: vec![page] }
    }

    /// Those bytes, if it is such. Cells of columns have no block without rows.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.blocks[..] {
            [page] if page.rows == 0 && self.data_type == DataType::Null => Some(&page.bytes),
            _ => None,
        }
    }

    pub fn holdings(&self) -> Holdings {
        Holdings::of_bytes(self.blocks.iter().flat_map(|block| [&block.bytes, &block.large]))
    }

    fn open(&self) -> Result<Vec<Block>> {
        let opened: entasis_encoding::Result<Vec<Block>> = self.blocks.iter().map(EncodedBlock::open).collect();
        Ok(opened.map_err(entasis::Error::from)?)
    }
}

/// The large values of a block.
struct Region(Bytes);

impl LargeValues for Region {
    fn fetch(&self, offset: u64, size_bytes: u64) -> entasis_encoding::Result<Bytes> {
        let start = usize::try_from(offset).ok();
        let end = offset.checked_add(size_bytes).and_then(|end| usize::try_from(end).ok());
        match start.zip(end) {
            Some((start, end)) if end <= self.0.len() => Ok(self.0.slice(start..end)),
            _ => Err(entasis_encoding::Error::LargeValue(format!("{size_bytes} bytes at {offset} aren't in the cell"))),
        }
    }
}

/// The values of a cell, for one asker. They stay what they are, and stay readable, whatever becomes of the cell in the cache.
#[derive(Debug)]
pub struct Cell {
    values: Values,
    blocks: OnceLock<Vec<Block>>,
    /// What pages were decoded to.
    array: OnceLock<ArrayRef>,
    /// What pages were decoded to of the rows that were left then.
    survivors: OnceLock<Survivors>,
}

/// The values of some rows.
#[derive(Debug)]
struct Survivors {
    rows: Selection,
    array: ArrayRef,
}

impl Cell {
    pub(crate) fn new(values: Values) -> Self {
        Self { values, blocks: OnceLock::new(), array: OnceLock::new(), survivors: OnceLock::new() }
    }

    /// Its pages, if it is such, and was not decoded yet.
    pub(crate) fn pages(&self) -> Option<&Arc<Pages>> {
        match &self.values {
            Values::Pages(pages) if self.array.get().is_none() && self.survivors.get().is_none() => Some(pages),
            _ => None,
        }
    }

    /// Remembers for this asker what its pages hold of `rows`: no others will be asked for.
    pub(crate) fn remember(&self, rows: Selection, array: ArrayRef) {
        debug_assert_eq!(rows.count(), array.len());
        self.survivors.get_or_init(|| Survivors { rows, array });
    }

    /// The values that are remembered, and which of them are alive; `None` if there are none, or others are asked for.
    fn survivors(&self, selection: &Selection) -> Option<(&Survivors, Selection)> {
        let survivors = self.survivors.get()?;
        Some((survivors, selection.among(&survivors.rows)?))
    }

    /// Whether it is pages whose bytes are yet to be fetched.
    pub(crate) fn is_away(&self) -> bool {
        self.pages().is_some_and(|pages| !pages.is_here())
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Pages(pages) => pages.rows(),
            Values::Arrow(array) => array.len(),
            Values::Encoded(encoded) => encoded.rows,
        }
    }

    /// Its type; that of a struct outside lists, whose fields are cells of their own, is boolean: where it isn't null.
    pub fn data_type(&self) -> &DataType {
        match &self.values {
            Values::Pages(pages) => pages.data_type(),
            Values::Arrow(array) => array.data_type(),
            Values::Encoded(encoded) => &encoded.data_type,
        }
    }

    /// The state in which it was found.
    pub fn state(&self) -> State {
        self.values.state()
    }

    /// XXH3-64 of each of its blocks; none if it isn't encoded.
    pub fn digests(&self) -> Vec<u64> {
        match &self.values {
            Values::Pages(_) | Values::Arrow(_) => Vec::new(),
            Values::Encoded(encoded) => encoded.blocks.iter().map(|block| digest(&block.bytes)).collect(),
        }
    }

    /// The bytes of an object, if it is such and no cell of a column.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match &self.values {
            Values::Encoded(encoded) => encoded.bytes().cloned(),
            Values::Pages(_) | Values::Arrow(_) => None,
        }
    }

    /// The rows and the statistics of each of its blocks; none if it isn't encoded.
    pub fn zones(&self) -> impl Iterator<Item = (usize, &Zone)> {
        let blocks = match &self.values {
            Values::Pages(_) | Values::Arrow(_) => &[],
            Values::Encoded(encoded) => encoded.blocks.as_slice(),
        };
        blocks.iter().map(|block| (block.rows, &block.zone))
    }

    /// All rows. Costs nothing where they are an array; what pages are decoded to is remembered for this asker.
    pub fn decode(&self) -> Result<ArrayRef> {
        match &self.values {
            Values::Arrow(array) => Ok(array.clone()),
            Values::Encoded(encoded) => {
                let blocks = self.open(encoded)?.iter().map(|block| (block, 0..block.rows()));
                Ok(decode_rows(blocks, &encoded.data_type)?)
            }
            Values::Pages(pages) => match self.array.get() {
                Some(array) => Ok(array.clone()),
                None => {
                    let decoded = pages.decode()?;
                    Ok(self.array.get_or_init(|| decoded).clone())
                }
            },
        }
    }

    /// The rows that are alive.
    ///
    /// # Errors
    /// An invalid argument if `selection` has other than the cell's rows.
    pub fn select(&self, selection: &Selection) -> Result<ArrayRef> {
        self.check(selection)?;
        if let Values::Encoded(encoded) = &self.values {
            return self.select_encoded(encoded, selection, &encoded.data_type);
        }
        if let Some((survivors, alive)) = self.survivors(selection) {
            return kept_rows(&survivors.array, &alive);
        }
        match self.pages() {
            Some(pages) if selection.count() < selection.rows() => pages.select(selection),
            _ => kept_rows(&self.decode()?, selection),
        }
    }

    /// Some vectors of the cell, which have `rows` rows; instead of those that are known not to be alive it may have others.
    pub(crate) fn vectors(&self, vectors: Range<usize>, rows: usize) -> Result<ArrayRef> {
        let start = vectors.start * VECTOR_ROWS;
        let Some(survivors) = self.survivors.get() else { return Ok(self.decode()?.slice(start, rows)) };
        let before = survivors.rows.iter().take_while(|&row| row < start).count();
        let alive = taken(&mut survivors.rows.clone(), vectors, rows);
        if alive.is_empty() {
            return Ok(self.decode()?.slice(start, rows));
        }
        let (mut next, mut places) = (before as u32, Vec::with_capacity(rows));
        for row in 0..rows {
            places.push(next.saturating_sub(u32::from(!alive.contains(row))));
            next += u32::from(alive.contains(row));
        }
        Ok(take(&survivors.array, &UInt32Array::from(places), None).map_err(entasis::Error::from)?)
    }

    /// The rows that are alive, as an array of `data_type`: byte strings may be wanted in another layout than the cell's.
    ///
    /// # Errors
    /// As [`Cell::select`]; what Arrow says of types without a cast.
    pub fn select_as(&self, selection: &Selection, data_type: &DataType) -> Result<ArrayRef> {
        if self.data_type() == data_type {
            return self.select(selection);
        }
        match &self.values {
            Values::Pages(_) | Values::Arrow(_) => {
                // What can't be cast is an error, as it is where it is decoded, and no null.
                let options = CastOptions { safe: false, ..CastOptions::default() };
                Ok(cast_with_options(&self.select(selection)?, data_type, &options).map_err(entasis::Error::from)?)
            }
            Values::Encoded(encoded) => self.select_encoded(encoded, selection, data_type),
        }
    }

    fn select_encoded(&self, encoded: &Encoded, selection: &Selection, data_type: &DataType) -> Result<ArrayRef> {
        self.check(selection)?;
        let blocks = self.open(encoded)?;
        let mut rest = selection.clone();
        let parts: Vec<Selection> = vectors_of(blocks).map(|(rows, at)| taken(&mut rest, rows, at)).collect();
        Ok(select_rows(blocks.iter().zip(&parts), data_type)?)
    }

    /// How many values a filter of [`asking`](entasis::blocks::asking) asks about; `None` if the cell isn't encoded.
    pub fn ask_count(&self, filter: &Filter) -> Result<Option<usize>> {
        let Values::Encoded(encoded) = &self.values else { return Ok(None) };
        let counts = self.open(encoded)?.iter().map(|block| filter.ask_count(block));
        Ok(Some(counts.map(|count| count.own + count.shared).sum()))
    }

    /// Bytes that the values hold as an array; of encoded ones that is nothing, nor of pages that weren't decoded.
    pub(crate) fn array_bytes(&self) -> usize {
        match &self.values {
            Values::Arrow(array) => array.get_array_memory_size(),
            Values::Pages(_) => {
                let survivors = self.survivors.get().map(|survivors| &survivors.array);
                self.array.get().into_iter().chain(survivors).map(|array| array.get_array_memory_size()).sum()
            }
            Values::Encoded(_) => 0,
        }
    }

    /// Keeps the rows of `selection` that pass `filter`, which is of the cell's physical type: on encoded bytes where there are such.
    ///
    /// # Errors
    /// As [`Cell::select`]; unsupported are filters of lists that aren't encoded.
    pub fn filter(&self, filter: &Filter, selection: &mut Selection, work: &mut FilterWork) -> Result<()> {
        self.check(selection)?;
        if let Values::Encoded(encoded) = &self.values {
            let blocks = self.open(encoded)?;
            for ((rows, at), block) in vectors_of(blocks).zip(blocks) {
                let mut part = taken(selection, rows.clone(), at);
                filter.apply(block, &mut part, work).map_err(entasis::Error::from)?;
                selection.swap(rows, &mut part, 0);
            }
            return Ok(());
        }
        if let Some((survivors, mut alive)) = self.survivors(selection) {
            filter_array(filter, &survivors.array, &mut alive, work)?;
            *selection = survivors.rows.clone();
            selection.keep(alive.to_bits().bits());
            return Ok(());
        }
        filter_array(filter, &self.decode()?, selection, work)?;
        Ok(())
    }

    fn check(&self, selection: &Selection) -> Result<()> {
        if selection.rows() == self.rows() {
            return Ok(());
        }
        let what = format!("a selection of {} rows for a cell of {}", selection.rows(), self.rows());
        Err(Error::Entasis(entasis::Error::InvalidArgument(what)))
    }

    /// The blocks, opened when first needed, and remembered for this asker.
    fn open(&self, encoded: &Encoded) -> Result<&[Block]> {
        if let Some(blocks) = self.blocks.get() {
            return Ok(blocks);
        }
        let opened = encoded.open()?;
        Ok(self.blocks.get_or_init(|| opened))
    }
}

/// The vectors of the cell that each block has, and its rows.
fn vectors_of(blocks: &[Block]) -> impl Iterator<Item = (Range<usize>, usize)> {
    blocks.iter().scan(0, |next, block| {
        let first = *next;
        *next += block.rows().div_ceil(VECTOR_ROWS);
        Some((first..*next, block.rows()))
    })
}

/// The rows of an array that are alive, without what long values of others take.
pub(crate) fn compact_rows(array: &ArrayRef, selection: &Selection) -> Result<ArrayRef> {
    let kept = kept_rows(array, selection)?;
    Ok(match kept.data_type() {
        DataType::Utf8View => Arc::new(kept.as_string_view().gc()),
        DataType::BinaryView => Arc::new(kept.as_binary_view().gc()),
        _ => kept,
    })
}

/// The rows of an array that are alive.
pub(crate) fn kept_rows(array: &ArrayRef, selection: &Selection) -> Result<ArrayRef> {
    if selection.count() == array.len() {
        return Ok(array.clone());
    }
    let alive = BooleanBuffer::new(selection.to_bits().into_bytes().into(), 0, array.len());
    Ok(filter(array, &BooleanArray::new(alive, None)).map_err(entasis::Error::from)?)
}

/// Takes the selection of some vectors, which have `rows` rows, out of a longer one.
pub(crate) fn taken(selection: &mut Selection, vectors: Range<usize>, rows: usize) -> Selection {
    let mut part = Selection::none(rows);
    selection.swap(vectors, &mut part, 0);
    part
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use entasis_encoding::{Comparison, FloatOrder, Predicate, Scalar};

    use super::*;

    /// The same cell in both states; the wide one is of several blocks.
    fn both(array: &ArrayRef) -> [Cell; 2] {
        let encoded = Encoded::new(array, &EncodeOptions::default()).unwrap();
        [Cell::new(Values::Arrow(array.clone())), Cell::new(Values::Encoded(Arc::new(encoded)))]
    }

    #[test]
    fn cells_answer_alike_in_both_states() {
        let wide = StringArray::from_iter((0..9_500).map(|row| (row % 11 > 0).then(|| format!("{row:01500}"))));
        let large =
            StringArray::from_iter_values((0..300).map(|row| "x".repeat(if row % 9 == 0 { 20_000 } else { row })));
        let numbers = Int64Array::from_iter((0..5_000).map(|row| (row % 4 > 0).then_some(row * 7 % 1_000)));
        let literal = |text: &str| Scalar::Bytes(text.as_bytes().to_vec());
        let cases: [(ArrayRef, Physical, Scalar, usize); 3] = [
            (Arc::new(wide), Physical::Bytes, literal(&format!("{:01500}", 4_700)), 2),
            (Arc::new(large), Physical::Bytes, literal("xxxxx"), 1),
            (Arc::new(numbers), Physical::Fixed(entasis_encoding::Fixed::I64), Scalar::Int(500), 1),
        ];
        for (array, physical, literal, block_count) in cases {
            let cells = both(&array);
            assert_eq!(cells[1].digests().len(), block_count);
            assert_eq!(cells[1].zones().map(|(rows, _)| rows).sum::<usize>(), array.len());
            let filter = Filter::new(&Predicate::Compare(Comparison::Less, literal, FloatOrder::default()), &physical);
            let selected = cells.each_ref().map(|cell| {
                let mut selection = Selection::from_bits(&(0..array.len()).map(|row| row % 5 != 1).collect());
                cell.filter(&filter, &mut selection, &mut FilterWork::default()).unwrap();
                (selection.clone(), cell.select(&selection).unwrap())
            });
            assert_eq!(selected[0], selected[1]);
            assert!(!selected[0].0.is_empty() && selected[0].0.count() < array.len() * 4 / 5, "some pass");
            assert_eq!(&cells[1].decode().unwrap(), &array);
            assert_eq!(&cells[0].decode().unwrap(), &array);
            assert!(cells[1].select(&Selection::all(1)).is_err(), "a selection of other rows");
        }
    }

    #[test]
    fn values_that_are_remembered_answer_for_their_rows() {
        let array: ArrayRef = Arc::new(Int64Array::from_iter((0..5_000).map(|row| (row % 7 > 0).then_some(row % 10))));
        let of = |alive: &dyn Fn(usize) -> bool| Selection::from_bits(&(0..array.len()).map(alive).collect());
        let rows = of(&|row| row % 3 == 0 && !(1_024..3_072).contains(&row));
        let cell = Cell::new(Values::Arrow(array.clone()));
        cell.remember(rows.clone(), kept_rows(&array, &rows).unwrap());
        let fewer = of(&|row| rows.contains(row) && row % 4 == 0);
        for selection in [&rows, &fewer, &of(&|row| row == 1), &Selection::none(5_000)] {
            assert_eq!(&cell.select(selection).unwrap(), &kept_rows(&array, selection).unwrap());
        }
        let six = Predicate::Compare(Comparison::Equal, Scalar::Int(6), FloatOrder::default());
        let filter = Filter::new(&six, &Physical::Fixed(entasis_encoding::Fixed::I64));
        let mut passed = fewer.clone();
        cell.filter(&filter, &mut passed, &mut FilterWork::default()).unwrap();
        assert_eq!(passed, of(&|row| fewer.contains(row) && row % 10 == 6 && row % 7 > 0));
        for vectors in [0..1, 1..3, 2..5] {
            let start = vectors.start * VECTOR_ROWS;
            let count = (vectors.end * VECTOR_ROWS).min(array.len()) - start;
            let found = cell.vectors(vectors.clone(), count).unwrap();
            assert_eq!(found.len(), count);
            let alive = taken(&mut rows.clone(), vectors, count);
            let expected = kept_rows(&array.slice(start, count), &alive).unwrap();
            assert_eq!(&kept_rows(&found, &alive).unwrap(), &expected);
        }
    }
}
