//! Questions that only somebody else can answer, of decoded values: put to each distinct value where an encoding keeps such.

use std::fmt;
use std::sync::Arc;

use super::{Filter, FilterWork, Question, Test, merge_nulls};
use crate::encodings::strings::extend_repeated;
use crate::error::{Error, Result};
use crate::values::{BitBuffer, Decoded, DecodedValues, LaneAccess};
use crate::{Block, Physical};

/// What is asked about values that were decoded, be they one row's or those of many: a test of the value alone.
pub trait Ask: fmt::Debug + Send + Sync {
    /// An empty place for values, byte strings in the form in which they are wanted.
    fn empty(&self) -> Decoded;

    /// Appends a bit for each of `values`, set where it passes. What it says of a null is of no account.
    ///
    /// # Errors
    /// Whatever keeps it from telling; the filter ends with it.
    fn ask(&self, values: Decoded, out: &mut BitBuffer) -> Result<()>;
}

/// How many values a filter has somebody asked about to answer for all rows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskCount {
    /// Values that are the block's own: its rows, if none stands for many of them.
    pub own: usize,
    /// Values that it shares with other blocks: once they have been asked about, they aren't again.
    pub shared: usize,
}

impl Filter {
    /// The rows of columns of type `physical` that `ask` lets pass, and nulls if `nulls`. Values that stand for many rows, those of
    /// dictionaries and runs, are asked about once; of all others every row is, dead ones among them: see [`Filter::ask_count`].
    pub fn asking(ask: Arc<dyn Ask>, nulls: bool, physical: &Physical) -> Self {
        Self { question: Question::new(Test::Asked(ask), nulls, physical.clone()) }
    }

    /// How many values a filter of [`Filter::asking`] will ask about at most for the rows of a block.
    pub fn ask_count(&self, block: &Block) -> AskCount {
        block.root().ask_count(block.rows(), &self.question)
    }
}

impl Question {
    /// Asks about `count` values that `decode` appends.
    pub(super) fn ask(
        &self,
        ask: &dyn Ask,
        count: usize,
        decode: impl FnOnce(&mut Decoded) -> Result<()>,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let mut values = ask.empty();
        decode(&mut values)?;
        work.asked_values += count as u64;
        let validity = values.validity.clone();
        let mut found = BitBuffer::default();
        ask.ask(values, &mut found)?;
        if found.len() != count {
            return Err(Error::InvalidArgument(format!("{} answers about {count} values", found.len())));
        }
        match validity {
            None => out.extend_bits(found.bits()),
            Some(validity) => merge_nulls(found.bits(), validity.bits(), self.nulls, out),
        }
        Ok(())
    }

    /// Whether a lane's pattern passes, whoever says so.
    pub fn passes_lane<T: LaneAccess>(&self, lane: T, work: &mut FilterWork) -> Result<bool> {
        let Test::Asked(ask) = &self.test else { return Ok(self.holds_lane(lane)) };
        let push = |values: &mut DecodedValues| T::of_mut(values).map(|lanes| lanes.push(lane));
        self.ask_one(&**ask, push, work)
    }

    /// Whether a byte string passes, whoever says so.
    pub fn passes_bytes(&self, value: &[u8], work: &mut FilterWork) -> Result<bool> {
        let Test::Asked(ask) = &self.test else { return Ok(self.holds_bytes(value)) };
        let push = |values: &mut DecodedValues| match values {
            DecodedValues::Bytes(bytes) => extend_repeated(bytes, value, 1).ok(),
            _ => None,
        };
        self.ask_one(&**ask, push, work)
    }

    /// Whether a boolean passes, whoever says so.
    pub fn passes_bool(&self, value: bool, work: &mut FilterWork) -> Result<bool> {
        let Test::Asked(ask) = &self.test else { return Ok(self.holds_bool(value)) };
        let push = |values: &mut DecodedValues| match values {
            DecodedValues::Bool(bits) => {
                bits.push(value);
                Some(())
            }
            _ => None,
        };
        self.ask_one(&**ask, push, work)
    }

    /// Asks about the value that `push` appends where it can.
    fn ask_one(
        &self,
        ask: &dyn Ask,
        push: impl FnOnce(&mut DecodedValues) -> Option<()>,
        work: &mut FilterWork,
    ) -> Result<bool> {
        let mut found = BitBuffer::default();
        let decode = |values: &mut Decoded| {
            push(&mut values.values)
                .ok_or_else(|| Error::InvalidArgument("a place for values of another type".into()))?;
            values.extend_valid(1);
            Ok(())
        };
        self.ask(ask, 1, decode, work, &mut found)?;
        Ok(found.bits().get(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::chunk::{decoded_size_bytes, finished};
    use crate::chooser::{EncodeOptions, Encoder};
    use crate::encodings::{
        Encoding, constant::Constant, dictionary::Dictionary, plain::Plain, run::Run, sparse::Sparse, strings::Strings,
    };
    use crate::testing::{Cell, Hashed};
    use crate::values::{Column, Lanes, Values};
    use crate::{BytesForm, ChunkEncoder, Fixed, Limits, Parts, Selection};

    fn hashed(physical: &Physical, forbidden: Option<Cell>) -> Arc<Hashed> {
        Arc::new(Hashed { physical: physical.clone(), form: BytesForm::Views, forbidden })
    }

    fn forced(values: Values<'_>, rows: usize, encoding: &dyn Encoding) -> Block {
        let column = Column { rows, validity: None, values };
        let options = EncodeOptions::default();
        let node = Encoder::forcing(&options, encoding.id()).root(&column).unwrap();
        let bytes = finished(&node, &column.values.physical(), decoded_size_bytes(&column, false), false).bytes;
        Block::open(bytes.into(), &Parts::new(), None, &Limits::default()).unwrap()
    }

    /// What is asked of a whole block, and what was announced.
    fn asked(block: &Block) -> (u64, usize) {
        let filter = Filter::asking(hashed(block.physical(), None), false, block.physical());
        let mut work = FilterWork::default();
        filter.apply(block, &mut Selection::all(block.rows()), &mut work).unwrap();
        (work.asked_values, filter.ask_count(block).own)
    }

    #[test]
    fn values_that_stand_for_many_rows_are_asked_about_once() {
        let lanes = |of: fn(u32) -> u32| (0..6_000).map(of).collect::<Vec<u32>>();
        let block = |lanes: &[u32], encoding| forced(Values::Fixed(Fixed::U32, Lanes::L32(lanes)), 6_000, encoding);
        assert_eq!(asked(&block(&lanes(|_| 7), &Constant)), (1, 1));
        assert_eq!(asked(&block(&lanes(|row| row % 10 * 1_000_003), &Dictionary)), (10, 10));
        assert_eq!(asked(&block(&lanes(|row| row / 1_000), &Run)), (6, 6));
        let sparse = lanes(|row| if row % 100 == 3 { row } else { 9 });
        assert_eq!(asked(&block(&sparse, &Sparse)), (61, 61));
        // Each row has its own.
        assert_eq!(asked(&block(&lanes(|row| row * 7), &Plain)), (6_000, 6_000));
        let texts: Vec<Vec<u8>> = (0..6_000).map(|row| format!("text {}", row % 9).into_bytes()).collect();
        let strings: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        assert_eq!(asked(&forced(Values::Bytes(&strings), 6_000, &Dictionary)), (9, 9));
        assert_eq!(asked(&forced(Values::Bytes(&strings), 6_000, &Strings)), (6_000, 6_000));
    }

    #[test]
    fn a_shared_dictionary_is_asked_about_once_for_all_blocks() {
        // The second block's codes are wider than the first's.
        let texts: Vec<Vec<u8>> =
            (0..9_000).map(|row| format!("value {}", row * 7 % 100 + row / 3_000 * 150).into_bytes()).collect();
        let strings: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let mut chunk = ChunkEncoder::new(Physical::Bytes, EncodeOptions::default());
        let bytes: Vec<_> = strings
            .chunks(3_000)
            .map(|rows| {
                let column = Column { rows: rows.len(), validity: None, values: Values::Bytes(rows) };
                chunk.encode(&column, false, &mut |_| Ok(0)).unwrap().bytes
            })
            .collect();
        let mut parts = Parts::new();
        for part in chunk.finish().unwrap() {
            parts.push(Block::open(part.bytes.into(), &Parts::new(), None, &Limits::default()).unwrap());
        }
        let ask = hashed(&Physical::Bytes, None);
        let (filter, mut work) = (Filter::asking(ask.clone(), true, &Physical::Bytes), FilterWork::default());
        for (index, (bytes, rows)) in bytes.into_iter().zip(strings.chunks(3_000)).enumerate() {
            let block = Block::open(bytes.into(), &parts, None, &Limits::default()).unwrap();
            let left = if index == 0 { 300 } else { 0 };
            assert_eq!(filter.ask_count(&block), AskCount { own: 0, shared: left });
            let mut selection = Selection::all(block.rows());
            filter.apply(&block, &mut selection, &mut work).unwrap();
            let passes = |row: &usize| ask.holds(&Cell::Bytes(rows[*row].to_vec()));
            assert_eq!(selection.iter().collect::<Vec<_>>(), (0..block.rows()).filter(passes).collect::<Vec<_>>());
        }
        assert_eq!(work.asked_values, 300);
    }

    #[test]
    fn who_cannot_tell_ends_the_filter() {
        let texts: Vec<Vec<u8>> = (0..3_000).map(|row| format!("text {}", row % 9).into_bytes()).collect();
        let strings: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let block = forced(Values::Bytes(&strings), 3_000, &Dictionary);
        let ask = hashed(&Physical::Bytes, Some(Cell::Bytes(b"text 4".to_vec())));
        let filter = Filter::asking(ask, false, &Physical::Bytes);
        let error = filter.apply(&block, &mut Selection::all(3_000), &mut FilterWork::default()).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        // Values in another's hands are for who has them.
        let decoded = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        let mut one = decoded.empty_like();
        block.decode(0..1, &mut one).unwrap();
        assert!(matches!(filter.answer_decoded(&one, &mut BitBuffer::default()), Err(Error::InvalidArgument(_))));
    }
}
