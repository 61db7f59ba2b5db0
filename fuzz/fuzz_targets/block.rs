//! Any bytes as a block with its shared parts: every operation gives values or an error.
#![no_main]

use entasis_encoding::fuzzing::{exercise, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| exercise(data));

fuzz_mutator!(|data: &mut [u8], size: usize, _max_size: usize, seed: u32| {
    entasis_fuzz::mutated(mutate, data, size, seed)
});
