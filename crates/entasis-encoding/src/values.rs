//! Values outside blocks: what goes in ([`Column`]) and what comes out ([`Decoded`]).

use bytes::Bytes;

use crate::{Fixed, Lane, Physical, U256, Views, error::Result, simd};

/// Bits lent by somebody, least significant first: bit `i` is bit `(offset + i) % 8` of byte `(offset + i) / 8`.
#[derive(Debug, Clone, Copy)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Bits<'a> {
    /// `len` bits of `bytes` from bit `offset`. Panics if the bytes hold fewer: the caller made them.
    pub fn new(bytes: &'a [u8], offset: usize, len: usize) -> Self {
        assert!(bytes.len() * 8 >= offset + len, "bits {offset}..{} of {} bytes", offset + len, bytes.len());
        Self { bytes, offset, len }
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bit `index`.
    #[inline]
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        let position = self.offset + index;
        self.bytes[position / 8] >> (position % 8) & 1 == 1
    }

    /// All bits, in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|index| self.get(index))
    }

    /// Up to 64 bits from `index`, the first in the lowest place; bits past the end are 0.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        let count = self.len.saturating_sub(index).min(64);
        if count == 0 {
            return 0;
        }
        let position = self.offset + index;
        let (first, shift) = (position / 8, position % 8);
        if shift == 0 && count == 64 {
            let mut whole = [0; 8];
            whole.copy_from_slice(&self.bytes[first..first + 8]);
            return u64::from_le_bytes(whole);
        }
        let mut raw = [0; 16];
        let taken = (self.bytes.len() - first).min(9);
        raw[..taken].copy_from_slice(&self.bytes[first..first + taken]);
        let word = (u128::from_le_bytes(raw) >> shift) as u64;
        if count == 64 { word } else { word & ((1 << count) - 1) }
    }

    /// Number of set bits.
    pub fn count_ones(&self) -> usize {
        if self.len < 64 {
            return self.word(0).count_ones() as usize;
        }
        // Bits up to a whole byte, whole bytes, and the rest.
        let head = (8 - self.offset % 8) % 8;
        let (first, byte_count) = ((self.offset + head) / 8, (self.len - head) / 8);
        let tail = self.word(head + byte_count * 8);
        let whole = simd::count_ones(&self.bytes[first..first + byte_count]);
        (self.word(0) & ((1 << head) - 1)).count_ones() as usize + whole + tail.count_ones() as usize
    }

    /// `len` bits from bit `start`.
    pub fn slice(&self, start: usize, len: usize) -> Bits<'a> {
        assert!(start + len <= self.len, "bits {start}..{} of {}", start + len, self.len);
        Bits { bytes: self.bytes, offset: self.offset + start, len }
    }
}

/// Bits that grow, least significant first; unused bits of the last byte are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BitBuffer {
    bytes: Vec<u8>,
    len: usize,
}

impl BitBuffer {
    /// The first `len` bits of `words`, 64 in each; there are no others, and those behind are 0.
    pub(crate) fn from_words(words: &[u64], len: usize) -> Self {
        let mut bits = Self::default();
        for (index, &word) in words.iter().enumerate() {
            bits.extend_word(word, (len - index * 64).min(64));
        }
        bits
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits, lent.
    pub fn bits(&self) -> Bits<'_> {
        Bits::new(&self.bytes, 0, self.len)
    }

    /// The bytes that hold them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends one bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        self.extend_word(u64::from(bit), 1);
    }

    /// Appends the `count` (≤ 64) lowest bits of `word`; higher bits must be 0.
    #[inline]
    pub fn extend_word(&mut self, word: u64, count: usize) {
        let shift = self.len % 8;
        if shift == 0 && count == 64 {
            self.bytes.extend_from_slice(&word.to_le_bytes());
            self.len += 64;
            return;
        }
        if shift != 0 {
            let last = self.bytes.len() - 1;
            self.bytes[last] |= (word << shift) as u8;
        }
        let used = (8 - shift) % 8;
        self.len += count;
        if count > used {
            let rest = word >> used;
            self.bytes.extend_from_slice(&rest.to_le_bytes()[..(count - used).div_ceil(8)]);
        }
    }

    /// Appends `count` equal bits.
    pub fn extend_constant(&mut self, bit: bool, count: usize) {
        let word = if bit { u64::MAX } else { 0 };
        let head = count.min((8 - self.len % 8) % 8);
        self.extend_word(word & ((1 << head) - 1), head);
        let rest = count - head;
        self.bytes.resize(self.bytes.len() + rest / 8, word as u8);
        self.len += rest / 8 * 8;
        self.extend_word(word & ((1 << (rest % 8)) - 1), rest % 8);
    }

    /// Appends lent bits.
    pub fn extend_bits(&mut self, bits: Bits<'_>) {
        if self.len.is_multiple_of(8) && bits.offset.is_multiple_of(8) {
            let first = bits.offset / 8;
            self.bytes.extend_from_slice(&bits.bytes[first..first + bits.len.div_ceil(8)]);
            self.len += bits.len;
            if !self.len.is_multiple_of(8) {
                let last = self.bytes.len() - 1;
                self.bytes[last] &= (1 << (self.len % 8)) - 1;
            }
            return;
        }
        for index in (0..bits.len).step_by(64) {
            self.extend_word(bits.word(index), (bits.len - index).min(64));
        }
    }

    /// Keeps the first `len` bits.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.bytes.truncate(len.div_ceil(8));
            if !len.is_multiple_of(8) {
                let last = self.bytes.len() - 1;
                self.bytes[last] &= (1 << (len % 8)) - 1;
            }
        }
    }
}

impl FromIterator<bool> for BitBuffer {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut buffer = Self::default();
        bits.into_iter().for_each(|bit| buffer.push(bit));
        buffer
    }
}

/// The values of one column, or of a child of one, lent to be encoded.
#[derive(Debug, Clone)]
pub struct Column<'a> {
    /// Number of values.
    pub rows: usize,
    /// Set bits are values, clear ones nulls; `None` if nothing is null. Values under nulls are arbitrary.
    pub validity: Option<Bits<'a>>,
    /// The values.
    pub values: Values<'a>,
}

/// Lent values, by layout.
#[derive(Debug, Clone)]
pub enum Values<'a> {
    /// No values: everything is null.
    Null,
    /// Booleans.
    Bool(Bits<'a>),
    /// Lanes and what their bits mean.
    Fixed(Fixed, Lanes<'a>),
    /// Byte strings.
    Bytes(&'a [&'a [u8]]),
    /// Lists: `rows` + 1 offsets into the child, ascending from 0, the last being the child's rows.
    List(&'a [u32], Box<Column<'a>>),
    /// Fixed-size lists: the size, and a child of rows × size.
    FixedList(u32, Box<Column<'a>>),
    /// Structs: fields of as many rows.
    Struct(Vec<Column<'a>>),
}

/// Lent lanes, by width.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Lanes<'a> {
    L8(&'a [u8]),
    L16(&'a [u16]),
    L32(&'a [u32]),
    L64(&'a [u64]),
    L128(&'a [u128]),
    L256(&'a [U256]),
}

/// Runs `$body` with `$slice` bound to the slice of lanes, whatever its width.
#[macro_export]
macro_rules! with_lanes {
    ($lanes:expr, $slice:ident => $body:expr) => {
        match $lanes {
            $crate::Lanes::L8($slice) => $body,
            $crate::Lanes::L16($slice) => $body,
            $crate::Lanes::L32($slice) => $body,
            $crate::Lanes::L64($slice) => $body,
            $crate::Lanes::L128($slice) => $body,
            $crate::Lanes::L256($slice) => $body,
        }
    };
}

impl Lanes<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        with_lanes!(self, lanes => lanes.len())
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Values<'_> {
    /// The physical type of these values.
    pub fn physical(&self) -> Physical {
        match self {
            Values::Null => Physical::Null,
            Values::Bool(_) => Physical::Bool,
            Values::Fixed(fixed, _) => Physical::Fixed(*fixed),
            Values::Bytes(_) => Physical::Bytes,
            Values::List(_, child) => Physical::List(Box::new(child.values.physical())),
            Values::FixedList(size, child) => Physical::FixedList(*size, Box::new(child.values.physical())),
            Values::Struct(fields) => Physical::Struct(fields.iter().map(|field| field.values.physical()).collect()),
        }
    }
}

/// How byte strings come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BytesForm {
    /// One buffer of bytes and 32-bit offsets.
    #[default]
    Offsets32,
    /// One buffer of bytes and 64-bit offsets.
    Offsets64,
    /// 16-byte views, as Arrow lays them out, over buffers that may be lent by the block or its shared parts.
    Views,
}

/// Decoded values; operations append to them, so that several blocks become one array.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// Number of values.
    pub rows: usize,
    /// Set bits are values; `None` as long as nothing is null.
    pub validity: Option<BitBuffer>,
    /// The values; those under nulls are arbitrary.
    pub values: DecodedValues,
}

/// Decoded values, by layout.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DecodedValues {
    Null,
    Bool(BitBuffer),
    L8(Vec<u8>),
    L16(Vec<u16>),
    L32(Vec<u32>),
    L64(Vec<u64>),
    L128(Vec<u128>),
    L256(Vec<U256>),
    Bytes(DecodedBytes),
    /// Offsets from 0 (rows + 1 of them) and the child.
    List(Vec<u64>, Box<Decoded>),
    FixedList(u32, Box<Decoded>),
    Struct(Vec<Decoded>),
}

/// Decoded byte strings.
#[derive(Debug, Clone)]
pub enum DecodedBytes {
    /// Rows + 1 offsets from 0 into the bytes.
    Offsets32(Vec<i32>, Vec<u8>),
    /// Rows + 1 offsets from 0 into the bytes.
    Offsets64(Vec<i64>, Vec<u8>),
    /// Arrow's views and their buffers.
    Views(Views),
}

impl Decoded {
    /// Nothing yet, of type `physical`.
    pub fn new(physical: &Physical, form: BytesForm) -> Self {
        let values = match physical {
            Physical::Null => DecodedValues::Null,
            Physical::Bool => DecodedValues::Bool(BitBuffer::default()),
            Physical::Fixed(fixed) => match fixed.size_bytes() {
                1 => DecodedValues::L8(Vec::new()),
                2 => DecodedValues::L16(Vec::new()),
                4 => DecodedValues::L32(Vec::new()),
                8 => DecodedValues::L64(Vec::new()),
                16 => DecodedValues::L128(Vec::new()),
                _ => DecodedValues::L256(Vec::new()),
            },
            Physical::Bytes => DecodedValues::Bytes(match form {
                BytesForm::Offsets32 => DecodedBytes::Offsets32(vec![0], Vec::new()),
                BytesForm::Offsets64 => DecodedBytes::Offsets64(vec![0], Vec::new()),
                BytesForm::Views => DecodedBytes::Views(Views::default()),
            }),
            Physical::List(child) => DecodedValues::List(vec![0], Box::new(Self::new(child, form))),
            Physical::FixedList(size, child) => DecodedValues::FixedList(*size, Box::new(Self::new(child, form))),
            Physical::Struct(fields) => {
                DecodedValues::Struct(fields.iter().map(|field| Self::new(field, form)).collect())
            }
        };
        Self { rows: 0, validity: None, values }
    }

    /// Nothing yet, of the type and form of `self`.
    pub fn empty_like(&self) -> Self {
        let values = match &self.values {
            DecodedValues::Null => DecodedValues::Null,
            DecodedValues::Bool(_) => DecodedValues::Bool(BitBuffer::default()),
            DecodedValues::L8(_) => DecodedValues::L8(Vec::new()),
            DecodedValues::L16(_) => DecodedValues::L16(Vec::new()),
            DecodedValues::L32(_) => DecodedValues::L32(Vec::new()),
            DecodedValues::L64(_) => DecodedValues::L64(Vec::new()),
            DecodedValues::L128(_) => DecodedValues::L128(Vec::new()),
            DecodedValues::L256(_) => DecodedValues::L256(Vec::new()),
            DecodedValues::Bytes(bytes) => DecodedValues::Bytes(match bytes {
                DecodedBytes::Offsets32(..) => DecodedBytes::Offsets32(vec![0], Vec::new()),
                DecodedBytes::Offsets64(..) => DecodedBytes::Offsets64(vec![0], Vec::new()),
                DecodedBytes::Views(_) => DecodedBytes::Views(Views::default()),
            }),
            DecodedValues::List(_, child) => DecodedValues::List(vec![0], Box::new(child.empty_like())),
            DecodedValues::FixedList(size, child) => DecodedValues::FixedList(*size, Box::new(child.empty_like())),
            DecodedValues::Struct(fields) => DecodedValues::Struct(fields.iter().map(Self::empty_like).collect()),
        };
        Self { rows: 0, validity: None, values }
    }

    /// Forgets the values and keeps the memory, for lanes and booleans; other layouts start afresh.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.validity = None;
        match &mut self.values {
            DecodedValues::Bool(bits) => bits.truncate(0),
            DecodedValues::L8(lanes) => lanes.clear(),
            DecodedValues::L16(lanes) => lanes.clear(),
            DecodedValues::L32(lanes) => lanes.clear(),
            DecodedValues::L64(lanes) => lanes.clear(),
            DecodedValues::L128(lanes) => lanes.clear(),
            DecodedValues::L256(lanes) => lanes.clear(),
            _ => *self = self.empty_like(),
        }
    }

    /// Appends the rows of `source`, which has the same type and form, in the order given.
    pub fn extend_picked(&mut self, source: &Decoded, rows: impl Iterator<Item = usize> + Clone) -> Result<()> {
        let count = rows.clone().count();
        if source.validity.is_some() && self.validity.is_none() {
            let mut bits = BitBuffer::default();
            bits.extend_constant(true, self.rows);
            self.validity = Some(bits);
        }
        match (&mut self.validity, &source.validity) {
            (Some(bits), Some(valid)) => rows.clone().for_each(|row| bits.push(valid.bits().get(row))),
            (Some(bits), None) => bits.extend_constant(true, count),
            (None, _) => {}
        }
        self.rows += count;
        match (&mut self.values, &source.values) {
            (DecodedValues::Null, DecodedValues::Null) => {}
            (DecodedValues::Bool(out), DecodedValues::Bool(from)) => {
                rows.for_each(|row| out.push(from.bits().get(row)))
            }
            (DecodedValues::L8(out), DecodedValues::L8(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::L16(out), DecodedValues::L16(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::L32(out), DecodedValues::L32(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::L64(out), DecodedValues::L64(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::L128(out), DecodedValues::L128(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::L256(out), DecodedValues::L256(from)) => out.extend(rows.map(|row| from[row])),
            (DecodedValues::Bytes(out), DecodedValues::Bytes(from)) => return out.extend_picked(from, rows),
            (DecodedValues::List(offsets, out), DecodedValues::List(from_offsets, from)) => {
                for row in rows {
                    let items = from_offsets[row] as usize..from_offsets[row + 1] as usize;
                    offsets.push(offsets.last().copied().unwrap_or(0) + items.len() as u64);
                    out.extend_picked(from, items)?;
                }
            }
            (DecodedValues::FixedList(size, out), DecodedValues::FixedList(_, from)) => {
                let size = *size as usize;
                return out.extend_picked(
                    from,
                    rows.flat_map(|row| row * size..(row + 1) * size).collect::<Vec<_>>().into_iter(),
                );
            }
            (DecodedValues::Struct(out), DecodedValues::Struct(from)) => {
                for (out, from) in out.iter_mut().zip(from) {
                    // Boxed, for nesting would otherwise instantiate this function for ever deeper iterators.
                    out.extend_picked(from, rows.clone().collect::<Vec<_>>().into_iter())?;
                }
            }
            _ => return Err(crate::Error::InvalidArgument("output of another physical type".into())),
        }
        Ok(())
    }

    /// Bytes of all byte strings that lie in buffers of their own, one after the other.
    pub(crate) fn string_bytes(&self) -> u64 {
        match &self.values {
            DecodedValues::Bytes(DecodedBytes::Offsets32(_, bytes) | DecodedBytes::Offsets64(_, bytes)) => {
                bytes.len() as u64
            }
            DecodedValues::List(_, child) | DecodedValues::FixedList(_, child) => child.string_bytes(),
            DecodedValues::Struct(fields) => fields.iter().map(Self::string_bytes).sum(),
            _ => 0,
        }
    }

    /// Bytes of lanes, or of byte strings with their offsets or views; 0 for other types.
    pub(crate) fn flat_size_bytes(&self) -> u64 {
        let size_bytes = match &self.values {
            DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, _)) => {
                size_of_val(&offsets[..]) + offsets.last().map_or(0, |&end| end as usize)
            }
            DecodedValues::Bytes(DecodedBytes::Offsets64(offsets, _)) => {
                size_of_val(&offsets[..]) + offsets.last().map_or(0, |&end| end as usize)
            }
            DecodedValues::Bytes(DecodedBytes::Views(views)) => {
                size_of_val(views.views()) + views.buffers().iter().map(Bytes::len).sum::<usize>()
            }
            lanes => crate::with_decoded_lanes!(lanes, lanes => size_of_val(&lanes[..]), 0),
        };
        size_bytes as u64
    }

    /// Finds out whether views are text, so that it is known of those that are gathered from them.
    pub(crate) fn learn_text(&mut self) {
        if let DecodedValues::Bytes(DecodedBytes::Views(views)) = &mut self.values {
            views.are_text();
        }
    }

    /// Makes room for `rows` more lanes, or for the offsets or views of as many byte strings.
    pub(crate) fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, _)) => offsets.reserve(rows),
            DecodedValues::Bytes(DecodedBytes::Offsets64(offsets, _)) => offsets.reserve(rows),
            DecodedValues::Bytes(DecodedBytes::Views(views)) => views.reserve(rows),
            lanes => crate::with_decoded_lanes!(lanes, lanes => lanes.reserve(rows), ()),
        }
    }

    /// Gives back memory of which most was never needed: kernels have room for a vector more than they are asked for, which is all but
    /// everything where a column has a few rows.
    pub fn shrink(&mut self) {
        if let Some(validity) = &mut self.validity {
            shrink(&mut validity.bytes);
        }
        match &mut self.values {
            DecodedValues::Null => {}
            DecodedValues::Bool(bits) => shrink(&mut bits.bytes),
            DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, bytes)) => {
                shrink(offsets);
                shrink(bytes);
            }
            DecodedValues::Bytes(DecodedBytes::Offsets64(offsets, bytes)) => {
                shrink(offsets);
                shrink(bytes);
            }
            DecodedValues::Bytes(DecodedBytes::Views(views)) => views.shrink(),
            DecodedValues::List(offsets, child) => {
                shrink(offsets);
                child.shrink();
            }
            DecodedValues::FixedList(_, child) => child.shrink(),
            DecodedValues::Struct(fields) => fields.iter_mut().for_each(Self::shrink),
            lanes => crate::with_decoded_lanes!(lanes, lanes => shrink(lanes), ()),
        }
    }

    /// Appends `rows` set validity bits where validity is kept, and counts the rows.
    pub fn extend_valid(&mut self, rows: usize) {
        if let Some(validity) = &mut self.validity {
            validity.extend_constant(true, rows);
        }
        self.rows += rows;
    }
}

/// Gives back what is spare if that is more than what is used.
pub(crate) fn shrink<T>(values: &mut Vec<T>) {
    if values.capacity() / 2 > values.len() {
        values.shrink_to_fit();
    }
}

impl DecodedBytes {
    /// Appends the strings of `source`, of the same form, in the order given. Views keep pointing at the buffers of `source`.
    fn extend_picked(&mut self, source: &DecodedBytes, rows: impl Iterator<Item = usize>) -> Result<()> {
        match (self, source) {
            (DecodedBytes::Views(views), DecodedBytes::Views(from)) => views.append_from(from, |from, views| {
                views.extend(rows.map(|row| from[row]));
                Ok(())
            })?,
            (DecodedBytes::Offsets32(offsets, bytes), DecodedBytes::Offsets32(from, from_bytes)) => {
                for row in rows {
                    bytes.extend_from_slice(&from_bytes[from[row] as usize..from[row + 1] as usize]);
                    offsets.push(i32::try_from(bytes.len()).map_err(|_| crate::Error::OffsetOverflow)?);
                }
            }
            (DecodedBytes::Offsets64(offsets, bytes), DecodedBytes::Offsets64(from, from_bytes)) => {
                for row in rows {
                    bytes.extend_from_slice(&from_bytes[from[row] as usize..from[row + 1] as usize]);
                    offsets.push(bytes.len() as i64);
                }
            }
            _ => return Err(crate::Error::InvalidArgument("byte strings of another form".into())),
        }
        Ok(())
    }
}

/// Runs `$body` with `$lanes` bound to the decoded lanes, whatever their width; else `$otherwise`.
#[macro_export]
#[doc(hidden)]
macro_rules! with_decoded_lanes {
    ($values:expr, $lanes:ident => $body:expr, $otherwise:expr) => {
        match $values {
            $crate::DecodedValues::L8($lanes) => $body,
            $crate::DecodedValues::L16($lanes) => $body,
            $crate::DecodedValues::L32($lanes) => $body,
            $crate::DecodedValues::L64($lanes) => $body,
            $crate::DecodedValues::L128($lanes) => $body,
            $crate::DecodedValues::L256($lanes) => $body,
            _ => $otherwise,
        }
    };
}

/// Access to the vector of one lane width inside [`DecodedValues`] and [`Lanes`].
pub trait LaneAccess: Lane {
    /// The vector, if the values are of this width.
    fn of(values: &DecodedValues) -> Option<&Vec<Self>>;
    /// The vector, if the values are of this width.
    fn of_mut(values: &mut DecodedValues) -> Option<&mut Vec<Self>>;
    /// The slice, if the lanes are of this width.
    fn lent<'a>(lanes: &Lanes<'a>) -> Option<&'a [Self]>;
    /// The lanes, as the enum.
    fn lanes(slice: &[Self]) -> Lanes<'_>;
}

macro_rules! lane_access {
    ($($lane:ty => $variant:ident),*) => {$(
        impl LaneAccess for $lane {
            fn of(values: &DecodedValues) -> Option<&Vec<Self>> {
                match values {
                    DecodedValues::$variant(lanes) => Some(lanes),
                    _ => None,
                }
            }

            fn of_mut(values: &mut DecodedValues) -> Option<&mut Vec<Self>> {
                match values {
                    DecodedValues::$variant(lanes) => Some(lanes),
                    _ => None,
                }
            }

            fn lent<'a>(lanes: &Lanes<'a>) -> Option<&'a [Self]> {
                match lanes {
                    Lanes::$variant(slice) => Some(slice),
                    _ => None,
                }
            }

            fn lanes(slice: &[Self]) -> Lanes<'_> {
                Lanes::$variant(slice)
            }
        }
    )*};
}

lane_access!(u8 => L8, u16 => L16, u32 => L32, u64 => L64, u128 => L128, U256 => L256);

/// Where the encoder puts values of 16 KiB and more, and where the decoder finds them.
pub trait LargeValues {
    /// The bytes of the large value at `offset`; the caller checks the checksum.
    fn fetch(&self, offset: u64, size_bytes: u64) -> Result<Bytes>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mostly_spare_is_given_back() {
        let spare = |rows: usize| {
            let mut lanes = Vec::with_capacity(1024 + rows);
            lanes.resize(rows, 7u64);
            let mut decoded = Decoded { rows, validity: None, values: DecodedValues::L64(lanes) };
            decoded.shrink();
            let DecodedValues::L64(lanes) = decoded.values else { unreachable!("they were lanes") };
            assert_eq!(lanes, vec![7; rows]);
            lanes.capacity() - rows
        };
        assert!(spare(0) < 64 && spare(64) < 64 && spare(1000) < 1000);
        assert_eq!(spare(8192), 1024, "copying it would cost more than the memory");
    }

    #[test]
    fn set_bits_are_counted_wherever_they_begin() {
        let bytes: Vec<u8> = (0..40u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for offset in 0..17 {
            for length in (0..80).chain([150, 200, 40 * 8 - offset]) {
                let bits = Bits::new(&bytes, offset, length);
                assert_eq!(bits.count_ones(), bits.iter().filter(|&bit| bit).count(), "{length} bits from {offset}");
            }
        }
    }
}
