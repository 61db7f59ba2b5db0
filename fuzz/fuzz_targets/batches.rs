//! Random typed batches come back from a file as they went in.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| entasis::fuzzing::round_trip(data));
