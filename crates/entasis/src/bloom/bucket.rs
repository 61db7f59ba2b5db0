//! One bucket: 8 words of 32 bits, of each of which a value sets one.

/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = 32;

/// What the low half of a hash is multiplied with, for each of the words.
const SALTS: [u32; 8] =
    [0x47B6_137B, 0x4497_4D91, 0x8824_AD5B, 0xA2B7_289D, 0x7054_95C7, 0x2DF1_424B, 0x9EFC_4947, 0x5C6B_FB31];

/// The number of the bucket of a hash, of so many.
pub fn bucket_of(hash: u64, buckets: u32) -> u32 {
    (((hash >> 32) * u64::from(buckets)) >> 32) as u32
}

/// The bit of each word that stands for a hash.
fn bits(hash: u64) -> [u32; 8] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// Puts a hash into its bucket.
pub fn insert(bucket: &mut [u8; BUCKET_BYTES], hash: u64) {
    for (word, bit) in bucket.as_chunks_mut::<4>().0.iter_mut().zip(bits(hash)) {
        *word = (u32::from_le_bytes(*word) | bit).to_le_bytes();
    }
}

/// Whether a value of this hash may have been put into the bucket.
pub fn may_hold(bucket: &[u8; BUCKET_BYTES], hash: u64) -> bool {
    bucket.as_chunks::<4>().0.iter().zip(bits(hash)).all(|(word, bit)| u32::from_le_bytes(*word) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_was_put_into_it() {
        let hashes: Vec<u64> = (0..20u64).map(|value| entasis_encoding::digest(&value.to_le_bytes())).collect();
        let mut bucket = [0; BUCKET_BYTES];
        for (count, hash) in hashes.iter().enumerate() {
            insert(&mut bucket, *hash);
            assert!(hashes[..=count].iter().all(|hash| may_hold(&bucket, *hash)));
        }
        assert!(!may_hold(&[0; BUCKET_BYTES], hashes[0]));
    }

    /// The bytes that the specification gives, by hand: the lowest half is 1, so that the bits are the salts' highest five.
    #[test]
    fn bits_are_where_the_specification_says() {
        let mut bucket = [0; BUCKET_BYTES];
        insert(&mut bucket, 0xFFFF_FFFF_0000_0001);
        let words: Vec<u32> = bucket.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words, [8, 8, 17, 20, 14, 5, 19, 11].map(|bit: u32| 1 << bit));
        assert_eq!([0, 1, 7].map(|buckets| bucket_of(u64::MAX, buckets)), [0, 0, 6]);
        assert_eq!(bucket_of(1 << 63, 10), 5);
    }
}
