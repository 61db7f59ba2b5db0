//! Lanes: the fixed-width unsigned integers that values are laid out in. Signed integers, floats, dates and decimals
//! travel as the bit patterns of the lane of their width; [`Physical`](crate::Physical) says what the bits mean.

use std::ops::{BitAnd, BitOr, Shl, Shr};

mod sealed {
    /// Keeps [`Lane`](super::Lane) to the six lanes of this module: kernels rely on every bit pattern being a value.
    pub trait Sealed {}
}

/// A fixed-width bit pattern of 8 to 256 bits. Lane width is [`Lane::BYTES`]; on disk a lane is little-endian.
pub trait Lane:
    sealed::Sealed + Copy + Eq + Ord + std::hash::Hash + Default + Send + Sync + std::fmt::Debug + 'static
{
    /// Bytes per value.
    const BYTES: usize;

    /// The lane whose little-endian bytes begin `bytes`, which must hold at least [`Lane::BYTES`].
    fn read(bytes: &[u8]) -> Self;

    /// Appends the lane's little-endian bytes.
    fn write(self, out: &mut Vec<u8>);

    /// The low 64 bits, zero-extended.
    fn low_bits(self) -> u64;

    /// Zero-extended to 256 bits.
    fn widen(self) -> U256;
}

macro_rules! integer_lanes {
    ($($lane:ty),*) => {$(
        impl sealed::Sealed for $lane {}

        impl Lane for $lane {
            const BYTES: usize = size_of::<$lane>();

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$lane>()];
                raw.copy_from_slice(&bytes[..size_of::<$lane>()]);
                Self::from_le_bytes(raw)
            }

            #[inline(always)]
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn low_bits(self) -> u64 {
                self as u64
            }

            fn widen(self) -> U256 {
                U256 { low: self as u128, high: 0 }
            }
        }
    )*};
}

integer_lanes!(u8, u16, u32, u64, u128);

/// A 256-bit lane: two 128-bit halves, the low one first, as Arrow's 256-bit decimals lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(C)]
pub struct U256 {
    /// The low 128 bits.
    pub low: u128,
    /// The high 128 bits.
    pub high: u128,
}

impl Ord for U256 {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.high, self.low).cmp(&(other.high, other.low))
    }
}

impl PartialOrd for U256 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl sealed::Sealed for U256 {}

impl Lane for U256 {
    const BYTES: usize = 32;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        Self { low: u128::read(bytes), high: u128::read(&bytes[16..]) }
    }

    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        self.low.write(out);
        self.high.write(out);
    }

    #[inline(always)]
    fn low_bits(self) -> u64 {
        self.low as u64
    }

    fn widen(self) -> U256 {
        self
    }
}

/// A lane of 8 to 64 bits: those that are packed, differenced and run through vector registers. Arithmetic wraps; a shift
/// is by less than [`PackedLane::BITS`].
pub trait PackedLane:
    Lane + BitAnd<Output = Self> + BitOr<Output = Self> + Shl<u32, Output = Self> + Shr<u32, Output = Self>
{
    /// Bits per value.
    const BITS: u32;
    /// Zero-extends to 64 bits.
    fn to_u64(self) -> u64;
    /// Keeps the low bits of `value`.
    fn from_u64(value: u64) -> Self;
    /// `self + other`, wrapping.
    fn add(self, other: Self) -> Self;
    /// `self − other`, wrapping.
    fn subtract(self, other: Self) -> Self;
}

macro_rules! packed_lanes {
    ($($lane:ty),*) => {$(
        impl PackedLane for $lane {
            const BITS: u32 = <$lane>::BITS;

            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as $lane
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

packed_lanes!(u8, u16, u32, u64);
