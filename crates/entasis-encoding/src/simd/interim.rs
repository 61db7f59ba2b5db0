//! Scalar stand-ins until the vectorised kernels land.
use crate::PackedLane;

pub fn width_histogram<T: PackedLane>(values: &[T], reference: T, histogram: &mut [u32; 65]) {
    for value in values {
        histogram[(64 - value.subtract(reference).to_u64().leading_zeros()) as usize] += 1;
    }
}
macro_rules! alp {
    ($encode:ident, $decode:ident, $lane:ty, $float:ty, $int:ty, $magic:expr) => {
        pub fn $decode(integers: &[$lane], multiply: $float, then: $float, out: &mut Vec<$lane>) {
            out.extend(integers.iter().map(|&i| ((i as $int) as $float * multiply * then).to_bits()));
        }
        pub fn $encode(
            values: &[$lane],
            m: $float,
            t: $float,
            dm: $float,
            dt: $float,
            out: &mut Vec<$lane>,
            exceptions: &mut Vec<u32>,
        ) {
            for (position, &bits) in values.iter().enumerate() {
                let scaled = <$float>::from_bits(bits) * m * t;
                let integer = ((scaled + $magic) - $magic) as $int;
                if (integer as $float * dm * dt).to_bits() != bits {
                    exceptions.push(position as u32);
                }
                out.push(integer as $lane);
            }
        }
    };
}
alp!(alp_encode_f64, alp_decode_f64, u64, f64, i64, 6755399441055744.0);
alp!(alp_encode_f32, alp_decode_f32, u32, f32, i32, 12582912.0);
