//! Columns to test with, of adversarial shapes, and values as plain as can be to compare them with.

use xxhash_rust::xxh3::xxh3_64;

use crate::block::head::EncodedNode;
use crate::encodings::REGISTRY;
use crate::error::{Error, Result};
use crate::filter::Ask;
pub(crate) use crate::random::Random;
use crate::values::{BitBuffer, Bits, Column, Decoded, DecodedValues, LaneAccess, Lanes, Values};
use crate::{BytesForm, Fixed, Lane, Physical, Scalar, U256, with_decoded_lanes, with_lane_of, with_lanes};

/// How the values of a column are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Constant,
    Runs,
    Few,
    Sorted,
    NearSorted,
    Alternating,
    Narrow,
    Outliers,
    Decimals,
    Extremes,
    Scattered,
    AllNull,
}

impl Shape {
    pub const ALL: [Shape; 12] = [
        Shape::Constant,
        Shape::Runs,
        Shape::Few,
        Shape::Sorted,
        Shape::NearSorted,
        Shape::Alternating,
        Shape::Narrow,
        Shape::Outliers,
        Shape::Decimals,
        Shape::Extremes,
        Shape::Scattered,
        Shape::AllNull,
    ];

    /// Numbers in this shape; what they stand for is up to the type.
    fn numbers(self, rows: usize, random: &mut Random) -> Vec<u64> {
        let mut last = random.next() >> 20;
        (0..rows)
            .map(|row| match self {
                Shape::Constant => 42,
                Shape::Runs => {
                    if random.below(50) == 0 {
                        last = random.next();
                    }
                    last
                }
                Shape::Few => 1000 + random.below(17) as u64 * 977,
                Shape::Sorted => {
                    last += random.below(5) as u64;
                    last
                }
                Shape::NearSorted => 1_000_000 + row as u64 * 60 + random.below(40) as u64,
                Shape::Alternating => [3, 200][row % 2],
                Shape::Narrow => 77 + random.below(100) as u64,
                Shape::Outliers => {
                    if random.below(60) == 0 {
                        random.next()
                    } else {
                        random.below(8) as u64
                    }
                }
                Shape::Decimals => random.below(100_000) as u64,
                Shape::Extremes => [0, u64::MAX, 1 << 63, (1 << 63) - 1, 1, 0x7FF8_0000_0000_0001][random.below(6)],
                Shape::Scattered | Shape::AllNull => random.next(),
            })
            .collect()
    }
}

/// A column that owns its values.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    rows: usize,
    validity: Option<BitBuffer>,
    values: OwnedValues,
}

#[derive(Debug, Clone)]
enum OwnedValues {
    Null,
    Bool(BitBuffer),
    Fixed(Fixed, DecodedValues),
    Bytes(Vec<Vec<u8>>),
    List(Vec<u32>, Box<Owned>),
    FixedList(u32, Box<Owned>),
    Struct(Vec<Owned>),
}

impl Owned {
    pub fn generate(physical: &Physical, shape: Shape, rows: usize, nulls: bool, random: &mut Random) -> Self {
        let numbers = shape.numbers(rows, random);
        let validity = match shape {
            Shape::AllNull => Some((0..rows).map(|_| false).collect()),
            _ if nulls => Some(some_nulls(rows, random)),
            _ => None,
        };
        let values = match physical {
            Physical::Null => OwnedValues::Null,
            Physical::Bool => OwnedValues::Bool(numbers.iter().map(|number| number % 3 == 0).collect()),
            Physical::Fixed(fixed) => OwnedValues::Fixed(*fixed, lanes(*fixed, shape, &numbers)),
            Physical::Bytes => OwnedValues::Bytes(numbers.iter().map(|&number| string(number, shape)).collect()),
            Physical::List(item) => {
                let mut offsets = vec![0];
                for (row, number) in numbers.iter().enumerate() {
                    let valid = validity.as_ref().is_none_or(|bits: &BitBuffer| bits.bits().get(row));
                    let length = if valid { (number % 5) as u32 } else { 0 };
                    offsets.push(offsets[row] + length);
                }
                let items = Self::generate(item, shape, offsets[rows] as usize, nulls, random);
                OwnedValues::List(offsets, Box::new(items))
            }
            Physical::FixedList(size, item) => OwnedValues::FixedList(
                *size,
                Box::new(Self::generate(item, shape, rows * *size as usize, nulls, random)),
            ),
            Physical::Struct(fields) => OwnedValues::Struct(
                fields.iter().map(|field| Self::generate(field, shape, rows, nulls, random)).collect(),
            ),
        };
        let validity = if *physical == Physical::Null { None } else { validity };
        Self { rows, validity, values }
    }

    /// Lends the column to `visit`. (Slices of slices have to live somewhere: here, for ever.)
    pub fn column(&self) -> Column<'_> {
        let values = match &self.values {
            OwnedValues::Null => Values::Null,
            OwnedValues::Bool(bits) => Values::Bool(bits.bits()),
            OwnedValues::Fixed(fixed, lanes) => {
                Values::Fixed(*fixed, with_decoded_lanes!(lanes, lanes => LaneAccess::lanes(lanes), Lanes::L8(&[])))
            }
            OwnedValues::Bytes(strings) => {
                Values::Bytes(Box::leak(strings.iter().map(Vec::as_slice).collect::<Vec<_>>().into_boxed_slice()))
            }
            OwnedValues::List(offsets, items) => Values::List(offsets, Box::new(items.column())),
            OwnedValues::FixedList(size, items) => Values::FixedList(*size, Box::new(items.column())),
            OwnedValues::Struct(fields) => Values::Struct(fields.iter().map(Self::column).collect()),
        };
        Column { rows: self.rows, validity: self.validity.as_ref().map(|bits| bits.bits()), values }
    }

    /// Replaces one byte string, and makes it valid.
    pub fn set_bytes(&mut self, row: usize, value: Vec<u8>) {
        if let OwnedValues::Bytes(strings) = &mut self.values {
            strings[row] = value;
        }
        if let Some(validity) = &mut self.validity {
            *validity = (0..self.rows).map(|index| index == row || validity.bits().get(index)).collect();
        }
    }
}

/// A few nulls, a sixth of all, or nearly nothing else: what is stored beside them differs.
fn some_nulls(rows: usize, random: &mut Random) -> BitBuffer {
    let density = random.below(3);
    let valid = |row: usize| match density {
        0 => random.below(40) > 0,
        1 => row / 64 % 3 == 1 || random.below(4) > 0,
        _ => random.below(12) == 0,
    };
    (0..rows).map(valid).collect()
}

fn lanes(fixed: Fixed, shape: Shape, numbers: &[u64]) -> DecodedValues {
    let bits = |number: u64| -> U256 {
        let float = match shape {
            Shape::Extremes | Shape::Scattered | Shape::Runs => None,
            _ => Some(number as i64 as f64 / 100.0),
        };
        let wide = match shape {
            Shape::Extremes | Shape::Scattered => {
                U256 { low: u128::from(number) << 64 | u128::from(number), high: u128::from(number) }
            }
            _ => U256 { low: i128::from(number as i64) as u128, high: if (number as i64) < 0 { u128::MAX } else { 0 } },
        };
        match (fixed, float) {
            (Fixed::F64, Some(float)) => float.to_bits().widen(),
            (Fixed::F32, Some(float)) => (float as f32).to_bits().widen(),
            _ => wide,
        }
    };
    fn collect<T: Lane>(numbers: &[u64], bits: impl Fn(u64) -> U256) -> Vec<T> {
        let mut raw = Vec::new();
        numbers
            .iter()
            .map(|&number| {
                raw.clear();
                bits(number).write(&mut raw);
                T::read(&raw)
            })
            .collect()
    }
    match fixed.size_bytes() {
        1 => DecodedValues::L8(collect(numbers, bits)),
        2 => DecodedValues::L16(collect(numbers, bits)),
        4 => DecodedValues::L32(collect(numbers, bits)),
        8 => DecodedValues::L64(collect(numbers, bits)),
        16 => DecodedValues::L128(collect(numbers, bits)),
        _ => DecodedValues::L256(collect(numbers, bits)),
    }
}

fn string(number: u64, shape: Shape) -> Vec<u8> {
    match shape {
        Shape::Alternating => vec![b'x'; (number % 3) as usize],
        Shape::Extremes => vec![0xFF; (number % 300) as usize],
        Shape::Scattered => (0..number % 40).map(|at| (number >> (at % 56)) as u8).collect(),
        _ => format!("https://example.org/items/{number}?page={}", number % 7).into_bytes(),
    }
}

/// A node without buffers, as a forger writes it.
pub(crate) fn made_node(encoding: u8, rows: usize, parameters: &[u8], children: Vec<EncodedNode>) -> EncodedNode {
    EncodedNode { encoding, rows, parameters: parameters.to_vec(), buffers: Vec::new(), children }
}

impl EncodedNode {
    /// Changes one thing somewhere in the tree.
    pub fn forge(&mut self, random: &mut Random) {
        if !self.children.is_empty() && random.below(3) > 0 {
            let child = random.below(self.children.len());
            return self.children[child].forge(random);
        }
        let spot = |bytes: &mut Vec<u8>, random: &mut Random| {
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                let byte = bytes[at];
                bytes[at] = [0, 1, 255, byte ^ 1, byte.wrapping_add(1), byte.wrapping_sub(2)][random.below(6)];
            }
        };
        let buffer = random.below(self.buffers.len().max(1));
        match (random.below(8), self.buffers.get_mut(buffer)) {
            (0, _) => self.rows = [0, 1, self.rows + 1, self.rows.saturating_sub(1), 1 << 31][random.below(5)],
            (1, Some(buffer)) => {
                let length = buffer.len();
                buffer.resize([0, length + 1, length.saturating_sub(1), length + 9][random.below(4)], 1);
            }
            (2..5, Some(buffer)) => spot(buffer, random),
            // One id more than there are.
            (5, _) => self.encoding = random.below(REGISTRY.len() + 2) as u8,
            _ => spot(&mut self.parameters, random),
        }
    }
}

/// One value, as plain as can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Bits(U256),
    Bytes(Vec<u8>),
    Items(Vec<Cell>),
}

impl Cell {
    pub fn scalar(&self, physical: &Physical) -> Option<Scalar> {
        match (self, physical) {
            (Cell::Bool(bit), _) => Some(Scalar::Bool(*bit)),
            (Cell::Bits(bits), Physical::Fixed(fixed)) => Some(Scalar::from_lane(*fixed, *bits)),
            (Cell::Bytes(bytes), _) => Some(Scalar::Bytes(bytes.clone())),
            _ => None,
        }
    }
}

fn cells(rows: usize, validity: Option<Bits<'_>>, cell: impl Fn(usize) -> Cell) -> Vec<Cell> {
    (0..rows).map(|row| if validity.is_none_or(|bits| bits.get(row)) { cell(row) } else { Cell::Null }).collect()
}

/// The values of a lent column.
pub(crate) fn cells_of_column(column: &Column<'_>) -> Vec<Cell> {
    let (rows, validity) = (column.rows, column.validity);
    match &column.values {
        Values::Null => vec![Cell::Null; rows],
        Values::Bool(bits) => cells(rows, validity, |row| Cell::Bool(bits.get(row))),
        Values::Fixed(_, lanes) => {
            with_lanes!(lanes, lanes => cells(rows, validity, |row| Cell::Bits(lanes[row].widen())))
        }
        Values::Bytes(strings) => cells(rows, validity, |row| Cell::Bytes(strings[row].to_vec())),
        Values::List(offsets, child) => {
            let items = cells_of_column(child);
            cells(rows, validity, |row| Cell::Items(items[offsets[row] as usize..offsets[row + 1] as usize].to_vec()))
        }
        Values::FixedList(size, child) => {
            let (items, size) = (cells_of_column(child), *size as usize);
            cells(rows, validity, |row| Cell::Items(items[row * size..(row + 1) * size].to_vec()))
        }
        Values::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(cells_of_column).collect();
            cells(rows, validity, |row| Cell::Items(fields.iter().map(|field| field[row].clone()).collect()))
        }
    }
}

/// The values of what was decoded.
pub(crate) fn cells_of(decoded: &Decoded) -> Vec<Cell> {
    let rows = decoded.rows;
    let validity = decoded.validity.as_ref().map(|bits| bits.bits());
    match &decoded.values {
        DecodedValues::Null => vec![Cell::Null; rows],
        DecodedValues::Bool(bits) => cells(rows, validity, |row| Cell::Bool(bits.bits().get(row))),
        DecodedValues::Bytes(strings) => {
            assert_eq!(strings.len(), rows);
            cells(rows, validity, |row| Cell::Bytes(strings.with(row, <[u8]>::to_vec)))
        }
        DecodedValues::List(offsets, child) => {
            let items = cells_of(child);
            assert_eq!((offsets.len(), offsets[rows] as usize), (rows + 1, items.len()));
            cells(rows, validity, |row| Cell::Items(items[offsets[row] as usize..offsets[row + 1] as usize].to_vec()))
        }
        DecodedValues::FixedList(size, child) => {
            let (items, size) = (cells_of(child), *size as usize);
            assert_eq!(items.len(), rows * size);
            cells(rows, validity, |row| Cell::Items(items[row * size..(row + 1) * size].to_vec()))
        }
        DecodedValues::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(cells_of).collect();
            cells(rows, validity, |row| Cell::Items(fields.iter().map(|field| field[row].clone()).collect()))
        }
        lanes => with_decoded_lanes!(lanes, lanes => {
            assert_eq!(lanes.len(), rows);
            cells(rows, validity, |row| Cell::Bits(lanes[row].widen()))
        }, unreachable!("all other layouts are handled above")),
    }
}

/// The number of bytes in a lane of this kind; a use of the macro that keeps it honest.
#[test]
fn lanes_are_as_wide_as_they_say() {
    for fixed in Fixed::ALL {
        assert_eq!(with_lane_of!(fixed, T => <T as Lane>::BYTES), fixed.size_bytes());
    }
}

/// Lets a half of all values pass, by their hash, and fails where it is asked about `forbidden`.
#[derive(Debug)]
pub(crate) struct Hashed {
    pub physical: Physical,
    pub form: BytesForm,
    pub forbidden: Option<Cell>,
}

impl Hashed {
    pub fn holds(&self, cell: &Cell) -> bool {
        xxh3_64(format!("{cell:?}").as_bytes()) % 2 == 1
    }
}

impl Ask for Hashed {
    fn empty(&self) -> Decoded {
        Decoded::new(&self.physical, self.form)
    }

    fn ask(&self, values: Decoded, out: &mut BitBuffer) -> Result<()> {
        for cell in cells_of(&values) {
            if Some(&cell) == self.forbidden.as_ref() {
                return Err(Error::Unsupported("a value that mustn't be asked about".into()));
            }
            out.push(self.holds(&cell));
        }
        Ok(())
    }
}
