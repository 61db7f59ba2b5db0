//! Random conditions on random tables: the scan's rows are those for which they hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| entasis::fuzzing::scan(data));
