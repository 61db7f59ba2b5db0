//! Physical types: what a block stores, and the inputs and outputs that go with them.

use crate::wire::{Reader, WireError, write_varint};

/// Types nest at most this deep, as do the nodes of a block.
pub const MAX_NESTING: usize = 32;

/// What the values of a node are. The tags are those of `spec/block.md`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Physical {
    /// Nothing but nulls.
    Null,
    /// One bit a value.
    Bool,
    /// A lane of fixed width.
    Fixed(Fixed),
    /// Byte strings of any length.
    Bytes,
    /// Lists of any length.
    List(Box<Physical>),
    /// Lists that all have as many items.
    FixedList(u32, Box<Physical>),
    /// Fields side by side. A file's structs outside lists are shredded into columns instead.
    Struct(Vec<Physical>),
}

/// What the bits of a lane mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Fixed {
    U8 = 2,
    U16 = 3,
    U32 = 4,
    U64 = 5,
    I8 = 6,
    I16 = 7,
    I32 = 8,
    I64 = 9,
    I128 = 10,
    I256 = 11,
    F16 = 12,
    F32 = 13,
    F64 = 14,
}

impl Fixed {
    /// Every one, in the order of the tags.
    pub const ALL: [Fixed; 13] = [
        Fixed::U8,
        Fixed::U16,
        Fixed::U32,
        Fixed::U64,
        Fixed::I8,
        Fixed::I16,
        Fixed::I32,
        Fixed::I64,
        Fixed::I128,
        Fixed::I256,
        Fixed::F16,
        Fixed::F32,
        Fixed::F64,
    ];

    /// Bytes per value.
    pub fn size_bytes(self) -> usize {
        match self {
            Fixed::U8 | Fixed::I8 => 1,
            Fixed::U16 | Fixed::I16 | Fixed::F16 => 2,
            Fixed::U32 | Fixed::I32 | Fixed::F32 => 4,
            Fixed::U64 | Fixed::I64 | Fixed::F64 => 8,
            Fixed::I128 => 16,
            Fixed::I256 => 32,
        }
    }

    /// True for signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, Fixed::I8 | Fixed::I16 | Fixed::I32 | Fixed::I64 | Fixed::I128 | Fixed::I256)
    }

    /// True for floats.
    pub fn is_float(self) -> bool {
        matches!(self, Fixed::F16 | Fixed::F32 | Fixed::F64)
    }

    /// The unsigned integer of the smallest lane that holds `max`.
    pub fn unsigned_for(max: u64) -> Fixed {
        match max {
            0..=0xFF => Fixed::U8,
            0x100..=0xFFFF => Fixed::U16,
            0x1_0000..=0xFFFF_FFFF => Fixed::U32,
            _ => Fixed::U64,
        }
    }

    /// The signed integer of the same width; floats give the integer of their bits.
    pub fn to_signed(self) -> Fixed {
        match self.size_bytes() {
            1 => Fixed::I8,
            2 => Fixed::I16,
            4 => Fixed::I32,
            8 => Fixed::I64,
            16 => Fixed::I128,
            _ => Fixed::I256,
        }
    }
}

impl Physical {
    /// Appends the type as `spec/block.md` lays it out.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Physical::Null => out.push(0),
            Physical::Bool => out.push(1),
            Physical::Fixed(fixed) => out.push(*fixed as u8),
            Physical::Bytes => out.push(15),
            Physical::List(child) => {
                out.push(16);
                child.write(out);
            }
            Physical::FixedList(size, child) => {
                out.push(17);
                write_varint(u64::from(*size), out);
                child.write(out);
            }
            Physical::Struct(fields) => {
                out.push(18);
                write_varint(fields.len() as u64, out);
                fields.iter().for_each(|field| field.write(out));
            }
        }
    }

    /// Reads a type; unknown tags and nesting over [`MAX_NESTING`] are errors at the tag's byte.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::read_nested(reader, MAX_NESTING)
    }

    fn read_nested(reader: &mut Reader<'_>, depth: usize) -> Result<Self, WireError> {
        let at = WireError(reader.position());
        let depth = depth.checked_sub(1).ok_or(at)?;
        Ok(match reader.u8()? {
            0 => Physical::Null,
            1 => Physical::Bool,
            15 => Physical::Bytes,
            16 => Physical::List(Box::new(Self::read_nested(reader, depth)?)),
            17 => {
                let size = reader.length(u32::MAX as usize)? as u32;
                Physical::FixedList(size, Box::new(Self::read_nested(reader, depth)?))
            }
            18 => {
                let count = reader.length(reader.remaining())?;
                Physical::Struct((0..count).map(|_| Self::read_nested(reader, depth)).collect::<Result<_, _>>()?)
            }
            tag => Physical::Fixed(*Fixed::ALL.get(usize::from(tag) - 2).ok_or(at)?),
        })
    }
}

impl std::fmt::Display for Physical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Physical::Null => f.write_str("null"),
            Physical::Bool => f.write_str("boolean"),
            Physical::Fixed(fixed) => f.write_str(&format!("{fixed:?}").to_lowercase()),
            Physical::Bytes => f.write_str("bytes"),
            Physical::List(child) => write!(f, "list<{child}>"),
            Physical::FixedList(size, child) => write!(f, "list<{child}; {size}>"),
            Physical::Struct(fields) => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                write!(f, "struct<{}>", fields.join(", "))
            }
        }
    }
}
