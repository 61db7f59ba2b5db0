//! The instruction sets that kernels are compiled for, and the choice among them at run time.

use std::sync::OnceLock;

/// An instruction set that every kernel exists for. The order is from the least to the most capable on one machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// What the build's target guarantees: SSE2 on a plain x86-64 build.
    Scalar,
    /// 128-bit vectors of aarch64, which its baseline guarantees: the portable kernels, compiled as they stand.
    /// Compiled only; untested on hardware.
    Neon,
    /// 256-bit vectors of x86-64: AVX2 with BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
    /// 512-bit vectors of x86-64: AVX-512 F, BW, DQ, VL, CD, VBMI, VBMI2, BITALG and VPOPCNTDQ, and VPCLMULQDQ and SSE 4.2, besides all that
    /// [`Level::Avx2`] needs, which is Ice Lake, Zen 4 and later. Older processors with AVX-512 slow down their clock for it and run at AVX2.
    Avx512,
}

/// The environment variable that lowers [`Level::detect`]: `scalar`, `avx2` or `avx512`.
pub const LEVEL_VARIABLE: &str = "ENTASIS_SIMD";

impl Level {
    /// The level that kernels run at: the best that this processor has, or less where [`LEVEL_VARIABLE`] says so (a
    /// level above the processor's, or an unknown word, changes nothing). Determined once per process.
    #[inline]
    pub fn detect() -> Self {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let best = Self::available().last().copied().unwrap_or(Self::Scalar);
            let wanted = match std::env::var(LEVEL_VARIABLE).as_deref() {
                Ok("scalar") => Self::Scalar,
                Ok("avx2") => Self::Avx2,
                _ => best,
            };
            if wanted.is_supported() { wanted } else { best }
        })
    }

    /// Every level that this processor runs, the least capable first; always begins with [`Level::Scalar`].
    pub fn available() -> Vec<Self> {
        [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512].into_iter().filter(|level| level.is_supported()).collect()
    }

    /// Whether this processor runs the level.
    #[inline]
    pub fn is_supported(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Avx2 => x86_support().avx2,
            Self::Avx512 => x86_support().avx512,
        }
    }

    /// This level where the processor runs it, else [`Level::Scalar`].
    #[inline]
    pub(super) fn or_scalar(self) -> Self {
        if self.is_supported() { self } else { Self::Scalar }
    }
}

#[derive(Clone, Copy)]
struct X86Support {
    avx2: bool,
    avx512: bool,
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn x86_support() -> X86Support {
    static SUPPORT: OnceLock<X86Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512bitalg")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("sse4.2");
        X86Support { avx2, avx512 }
    })
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn x86_support() -> X86Support {
    X86Support { avx2: false, avx512: false }
}

/// Work that is written once, as portable code that the compiler vectorises, and compiled for each level. `run` must be
/// `#[inline(always)]`, with everything that its loops call: only what is inlined is compiled for the level.
pub(super) trait Kernel {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs the instance of `kernel` that is compiled for `level`; a level that the processor lacks runs as
/// [`Level::Scalar`].
#[inline]
pub(super) fn run_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level.or_scalar() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `or_scalar` returns this level only where the processor has all features that it is compiled for.
        Level::Avx512 => unsafe { run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { run_avx2(kernel) },
        _ => kernel.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_levels_begin_with_scalar_and_hold_the_detected_one() {
        let levels = Level::available();
        assert_eq!(levels[0], Level::Scalar);
        assert!(levels.contains(&Level::detect()));
        assert!(levels.is_sorted());
    }

    #[test]
    fn an_unsupported_level_runs_as_scalar() {
        let foreign = if cfg!(target_arch = "x86_64") { Level::Neon } else { Level::Avx512 };
        assert_eq!(foreign.or_scalar(), Level::Scalar);
    }
}
