//! The few vector instructions that the compiler does not find by itself, behind one interface over both register sizes
//! of x86-64 and the four packed lanes. Elsewhere there are no registers, and kernels run their portable form.

use super::level::Level;
use crate::PackedLane;

/// A vector register that holds lanes of `Lane`.
///
/// # Safety
/// Every function needs a processor that has the features that [`run_in_registers`] checks for the register's level.
/// `load` and `store` need [`Register::BYTES`] readable or writable bytes, of any alignment.
pub(super) trait Register: Copy {
    type Lane: PackedLane;
    /// Counts for [`Register::funnel`], prepared once for a row.
    type Shift: Copy;

    const BYTES: usize;

    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn splat(value: Self::Lane) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    /// Lane by lane, wrapping.
    unsafe fn add(self, other: Self) -> Self;
    /// Prepares a shift by less than a lane's bits; a shift by all of them gives lanes of no meaning.
    unsafe fn shift(by: u32) -> Self::Shift;
    /// In each lane, the low half of the double-width `high:low >> shift`.
    unsafe fn funnel(low: Self, high: Self, shift: Self::Shift) -> Self;
    /// Lane `i` becomes the sum of lanes `0..=i`, wrapping.
    unsafe fn prefix_sum(self) -> Self;
    /// The last lane, in every lane.
    unsafe fn splat_last(self) -> Self;
}

/// Work on registers, written once for all of them. `run` must be `#[inline(always)]`.
pub(super) trait RegisterKernel {
    /// # Safety
    /// As of [`Register`], and `R::Lane` has as many bytes as the lane that was given to [`run_in_registers`].
    unsafe fn run<R: Register>(self);
}

/// Runs `kernel` in the registers of `level` and returns true; returns false, having done nothing, where the level has
/// none or the processor lacks the level.
///
/// # Safety
/// What the kernel demands for registers with lanes of `T`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn run_in_registers<T: PackedLane>(level: Level, kernel: impl RegisterKernel) -> bool {
    match level.or_scalar() {
        // SAFETY: `or_scalar` returns this level only where the processor has its features; the caller vouches for the
        // rest.
        Level::Avx512 => unsafe { x86::run_avx512::<T>(kernel) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::run_avx2::<T>(kernel) },
        _ => return false,
    }
    true
}

/// As on x86-64; here no level has registers.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) unsafe fn run_in_registers<T: PackedLane>(_: Level, _: impl RegisterKernel) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Register, RegisterKernel};
    use crate::PackedLane;
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::marker::PhantomData;

    /// # Safety
    /// As of [`super::run_in_registers`].
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    pub(super) unsafe fn run_avx512<T: PackedLane>(kernel: impl RegisterKernel) {
        // SAFETY: the caller's promise, with the lane of `T`'s width.
        unsafe {
            match T::BYTES {
                1 => kernel.run::<Wide<u8>>(),
                2 => kernel.run::<Wide<u16>>(),
                4 => kernel.run::<Wide<u32>>(),
                _ => kernel.run::<Wide<u64>>(),
            }
        }
    }

    /// # Safety
    /// As of [`super::run_in_registers`].
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) unsafe fn run_avx2<T: PackedLane>(kernel: impl RegisterKernel) {
        // SAFETY: the caller's promise, with the lane of `T`'s width.
        unsafe {
            match T::BYTES {
                1 => kernel.run::<Half<u8>>(),
                2 => kernel.run::<Half<u16>>(),
                4 => kernel.run::<Half<u32>>(),
                _ => kernel.run::<Half<u64>>(),
            }
        }
    }

    /// 512 bits.
    #[derive(Clone, Copy)]
    struct Wide<T>(__m512i, PhantomData<T>);

    /// 256 bits.
    #[derive(Clone, Copy)]
    struct Half<T>(__m256i, PhantomData<T>);

    /// What differs between the lanes of one register size. A prefix sum adds the register to itself moved up by 1, 2,
    /// 4 … lanes: across the whole register where `$total` is absent, else within 128 bits, and then the totals of the
    /// lower 128-bit parts.
    macro_rules! registers {
        ($register:ident, $raw:ty, $load:ident, $store:ident, $and:ident;
         $($lane:ty as $signed:ty: $splat:ident, $add:ident, $shift_type:ty, $shift:ident, $funnel:ident, $splat_last:ident,
           up [$($up:ident),*] $(, $total:ident [$($lower:ident),*])?;)+) => {$(
            impl Register for $register<$lane> {
                type Lane = $lane;
                type Shift = $shift_type;

                const BYTES: usize = size_of::<$raw>();

                #[inline(always)]
                unsafe fn load(from: *const u8) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $load(from.cast()) }, PhantomData)
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut u8) {
                    // SAFETY: the trait's contract.
                    unsafe { $store(to.cast(), self.0) }
                }

                #[inline(always)]
                unsafe fn splat(value: $lane) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $splat(value as $signed) }, PhantomData)
                }

                #[inline(always)]
                unsafe fn and(self, other: Self) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $and(self.0, other.0) }, PhantomData)
                }

                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $add(self.0, other.0) }, PhantomData)
                }

                #[inline(always)]
                unsafe fn shift(by: u32) -> $shift_type {
                    // SAFETY: the trait's contract.
                    unsafe { $shift(by) }
                }

                #[inline(always)]
                unsafe fn funnel(low: Self, high: Self, shift: $shift_type) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $funnel(low.0, high.0, shift) }, PhantomData)
                }

                #[inline(always)]
                unsafe fn prefix_sum(self) -> Self {
                    let mut sums = self.0;
                    // SAFETY: the trait's contract.
                    unsafe {
                        $(sums = $add(sums, $up(sums));)*
                        $(
                            let total = $total(sums);
                            $(sums = $add(sums, $lower(total));)*
                        )?
                    }
                    Self(sums, PhantomData)
                }

                #[inline(always)]
                unsafe fn splat_last(self) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $splat_last(self.0) }, PhantomData)
                }
            }
        )+};
    }

    type HalfShift = (__m256i, __m256i);

    registers! {
        Wide, __m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_and_si512;
        u8 as i8: _mm512_set1_epi8, _mm512_add_epi8, (__m512i, __m512i, __m512i), wide_shift_8, wide_funnel_8, wide_last_8,
            up [wide_up_1, wide_up_2, wide_up_4, wide_up_8], wide_total_8 [wide_part_1, wide_part_2, wide_part_3];
        u16 as i16: _mm512_set1_epi16, _mm512_add_epi16, __m512i, wide_shift_16, wide_funnel_16, wide_last_16,
            up [wide_up_2, wide_up_4, wide_up_8], wide_total_16 [wide_part_1, wide_part_2, wide_part_3];
        u32 as i32: _mm512_set1_epi32, _mm512_add_epi32, __m512i, wide_shift_32, wide_funnel_32, wide_last_32,
            up [wide_cross_4, wide_cross_8, wide_cross_16, wide_cross_32];
        u64 as i64: _mm512_set1_epi64, _mm512_add_epi64, __m512i, wide_shift_64, wide_funnel_64, wide_last_64,
            up [wide_cross_8, wide_cross_16, wide_cross_32];
    }

    registers! {
        Half, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_and_si256;
        u8 as i8: _mm256_set1_epi8, _mm256_add_epi8, (__m128i, __m128i, __m256i), half_shift_8, half_funnel_8, half_last_8,
            up [half_up_1, half_up_2, half_up_4, half_up_8], half_total_8 [half_part_1];
        u16 as i16: _mm256_set1_epi16, _mm256_add_epi16, (__m128i, __m128i), half_shift_16, half_funnel_16, half_last_16,
            up [half_up_2, half_up_4, half_up_8], half_total_16 [half_part_1];
        u32 as i32: _mm256_set1_epi32, _mm256_add_epi32, HalfShift, half_shift_32, half_funnel_32, half_last_32,
            up [half_up_4, half_up_8], half_total_32 [half_part_1];
        u64 as i64: _mm256_set1_epi64x, _mm256_add_epi64, HalfShift, half_shift_64, half_funnel_64, half_last_64,
            up [half_up_8], half_total_64 [half_part_1];
    }

    /// Helpers of one or two instructions; like the intrinsics, they are inlined into functions that have the features.
    macro_rules! helpers {
        ($($name:ident($($argument:ident: $type:ty),+) -> $result:ty = $body:expr;)+) => {$(
            /// # Safety
            /// As of [`Register`].
            #[inline(always)]
            unsafe fn $name($($argument: $type),+) -> $result {
                // SAFETY: the caller has the features of these instructions; none touches memory.
                unsafe { $body }
            }
        )+};
    }

    // Without a funnel instruction a shift is (right by `by`, left by the lane's bits − `by`); a count of all bits of a
    // lane gives zero. Bytes are shifted in words of 16 bits, and a mask then takes each bit from the side that it
    // belongs to.
    helpers! {
        wide_shift_64(by: u32) -> __m512i = _mm512_set1_epi64(i64::from(by));
        wide_shift_32(by: u32) -> __m512i = _mm512_set1_epi32(by as i32);
        wide_shift_16(by: u32) -> __m512i = _mm512_set1_epi16(by as i16);
        wide_shift_8(by: u32) -> (__m512i, __m512i, __m512i) =
            (_mm512_set1_epi16(by as i16), _mm512_set1_epi16(8 - by as i16), _mm512_set1_epi8((0xff >> by) as i8));
        wide_funnel_64(low: __m512i, high: __m512i, by: __m512i) -> __m512i = _mm512_shrdv_epi64(low, high, by);
        wide_funnel_32(low: __m512i, high: __m512i, by: __m512i) -> __m512i = _mm512_shrdv_epi32(low, high, by);
        wide_funnel_16(low: __m512i, high: __m512i, by: __m512i) -> __m512i = _mm512_shrdv_epi16(low, high, by);
        wide_funnel_8(low: __m512i, high: __m512i, shift: (__m512i, __m512i, __m512i)) -> __m512i =
            _mm512_ternarylogic_epi64::<SELECT>(shift.2, _mm512_srlv_epi16(low, shift.0), _mm512_sllv_epi16(high, shift.1));
        half_shift_64(by: u32) -> HalfShift =
            (opaque(_mm256_set1_epi64x(i64::from(by))), opaque(_mm256_set1_epi64x(64 - i64::from(by))));
        half_shift_32(by: u32) -> HalfShift =
            (opaque(_mm256_set1_epi32(by as i32)), opaque(_mm256_set1_epi32(32 - by as i32)));
        half_shift_16(by: u32) -> (__m128i, __m128i) = (_mm_cvtsi32_si128(by as i32), _mm_cvtsi32_si128(16 - by as i32));
        half_shift_8(by: u32) -> (__m128i, __m128i, __m256i) =
            (_mm_cvtsi32_si128(by as i32), _mm_cvtsi32_si128(8 - by as i32), _mm256_set1_epi8((0xff >> by) as i8));
        half_funnel_64(low: __m256i, high: __m256i, shift: HalfShift) -> __m256i =
            _mm256_or_si256(_mm256_srlv_epi64(low, shift.0), _mm256_sllv_epi64(high, shift.1));
        half_funnel_32(low: __m256i, high: __m256i, shift: HalfShift) -> __m256i =
            _mm256_or_si256(_mm256_srlv_epi32(low, shift.0), _mm256_sllv_epi32(high, shift.1));
        half_funnel_16(low: __m256i, high: __m256i, shift: (__m128i, __m128i)) -> __m256i =
            _mm256_or_si256(_mm256_srl_epi16(low, shift.0), _mm256_sll_epi16(high, shift.1));
        half_funnel_8(low: __m256i, high: __m256i, shift: (__m128i, __m128i, __m256i)) -> __m256i = _mm256_or_si256(
            _mm256_and_si256(shift.2, _mm256_srl_epi16(low, shift.0)),
            _mm256_andnot_si256(shift.2, _mm256_sll_epi16(high, shift.1)));
    }

    /// Hides from the compiler that all lanes of `counts` are equal: it would turn one shift by lane-wise counts into
    /// two instructions for an equal count, which makes unpacking slower by a fifth.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn opaque(mut counts: __m256i) -> __m256i {
        // SAFETY: no instruction at all.
        unsafe { asm!("/* {0} */", inout(ymm_reg) counts, options(pure, nomem, nostack, preserves_flags)) };
        counts
    }

    /// The truth table of `a ? b : c`, bit by bit.
    const SELECT: i32 = 0b1100_1010;

    // Moves towards higher lanes: `up_B` by B bytes within each 128 bits, `cross_B` by B bytes, `part_N` by N times 128
    // bits; zeros move in. `total` spreads the last lane of each 128 bits over them, `last` that of the register over
    // all of it.
    helpers! {
        wide_up_1(x: __m512i) -> __m512i = _mm512_bslli_epi128::<1>(x);
        wide_up_2(x: __m512i) -> __m512i = _mm512_bslli_epi128::<2>(x);
        wide_up_4(x: __m512i) -> __m512i = _mm512_bslli_epi128::<4>(x);
        wide_up_8(x: __m512i) -> __m512i = _mm512_bslli_epi128::<8>(x);
        wide_cross_4(x: __m512i) -> __m512i = _mm512_alignr_epi32::<15>(x, _mm512_setzero_si512());
        wide_cross_8(x: __m512i) -> __m512i = _mm512_alignr_epi64::<7>(x, _mm512_setzero_si512());
        wide_cross_16(x: __m512i) -> __m512i = _mm512_alignr_epi64::<6>(x, _mm512_setzero_si512());
        wide_cross_32(x: __m512i) -> __m512i = _mm512_alignr_epi64::<4>(x, _mm512_setzero_si512());
        wide_part_1(x: __m512i) -> __m512i = _mm512_alignr_epi64::<6>(x, _mm512_setzero_si512());
        wide_part_2(x: __m512i) -> __m512i = _mm512_alignr_epi64::<4>(x, _mm512_setzero_si512());
        wide_part_3(x: __m512i) -> __m512i = _mm512_alignr_epi64::<2>(x, _mm512_setzero_si512());
        wide_total_8(x: __m512i) -> __m512i = _mm512_shuffle_epi8(x, _mm512_set1_epi8(15));
        wide_total_16(x: __m512i) -> __m512i = _mm512_shuffle_epi8(x, _mm512_set1_epi16(0x0f0e));
        wide_last_8(x: __m512i) -> __m512i = wide_total_8(_mm512_shuffle_i64x2::<0xff>(x, x));
        wide_last_16(x: __m512i) -> __m512i = _mm512_permutexvar_epi16(_mm512_set1_epi16(31), x);
        wide_last_32(x: __m512i) -> __m512i = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), x);
        wide_last_64(x: __m512i) -> __m512i = _mm512_permutexvar_epi64(_mm512_set1_epi64(7), x);
        half_up_1(x: __m256i) -> __m256i = _mm256_bslli_epi128::<1>(x);
        half_up_2(x: __m256i) -> __m256i = _mm256_bslli_epi128::<2>(x);
        half_up_4(x: __m256i) -> __m256i = _mm256_bslli_epi128::<4>(x);
        half_up_8(x: __m256i) -> __m256i = _mm256_bslli_epi128::<8>(x);
        half_part_1(x: __m256i) -> __m256i = _mm256_permute2x128_si256::<0x08>(x, x);
        half_total_8(x: __m256i) -> __m256i = _mm256_shuffle_epi8(x, _mm256_set1_epi8(15));
        half_total_16(x: __m256i) -> __m256i = _mm256_shuffle_epi8(x, _mm256_set1_epi16(0x0f0e));
        half_total_32(x: __m256i) -> __m256i = _mm256_shuffle_epi32::<0xff>(x);
        half_total_64(x: __m256i) -> __m256i = _mm256_unpackhi_epi64(x, x);
        half_last_8(x: __m256i) -> __m256i = half_total_8(_mm256_permute4x64_epi64::<0xff>(x));
        half_last_16(x: __m256i) -> __m256i = half_total_16(_mm256_permute4x64_epi64::<0xff>(x));
        half_last_32(x: __m256i) -> __m256i = _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(7));
        half_last_64(x: __m256i) -> __m256i = _mm256_permute4x64_epi64::<0xff>(x);
    }
}
