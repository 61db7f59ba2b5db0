//! What the targets share: the fuzzer's own mutation as a function of bytes.

use libfuzzer_sys::fuzzer_mutate;

/// How the library changes an input: from its bytes, a seed, and a function that alters any bytes in any way.
pub type Mutate = fn(&[u8], u64, &mut dyn FnMut(&mut Vec<u8>)) -> Vec<u8>;

/// Most bytes that one change adds.
const GROWTH_BYTES: usize = 64;

/// Replaces the first `size` bytes of `data` by what `mutate` makes of them, and returns how many they are now.
pub fn mutated(mutate: Mutate, data: &mut [u8], size: usize, seed: u32) -> usize {
    let mut change = |bytes: &mut Vec<u8>| {
        let size = bytes.len();
        bytes.resize(size + GROWTH_BYTES, 0);
        let room = bytes.len();
        let changed = fuzzer_mutate(bytes, size, room);
        bytes.truncate(changed);
    };
    let output = mutate(&data[..size], u64::from(seed), &mut change);
    match data.get_mut(..output.len()) {
        Some(room) => room.copy_from_slice(&output),
        None => return size,
    }
    output.len()
}
