//! Where certain bytes are in a text, a bit for each byte.
//!
//! Processors compare many bytes at once; which of them can is found out when the program runs, and calling what not all of
//! them have is why this is here, where `unsafe` is. All ways give the same bits: the first of 64 bytes is the lowest.

/// Bytes whose places are in one number.
pub const LANES: usize = 64;

/// Writes, for each [`LANES`] bytes of a text, the places of each wanted byte. What is left behind the last whole
/// [`LANES`] bytes is not looked at, and what of `places` is not needed stays; the answer is how many were written.
pub fn byte_places<const N: usize>(
    text: &[u8],
    wanted: &[u8; N],
    places: &mut [[u64; N]],
) -> usize {
    let parts = &text.as_chunks::<LANES>().0;
    let count = parts.len().min(places.len());
    let (parts, places) = (&parts[..count], &mut places[..count]);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(
            unsafe_code,
            reason = "the processor has just said that it has these instructions"
        )]
        // SAFETY: AVX2 is there.
        unsafe {
            avx2::byte_places(parts, wanted, places);
        }
        return count;
    }
    eight_at_once(parts, wanted, places);
    count
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! 32 bytes at once.

    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set_epi64x, _mm256_set1_epi8,
    };

    use super::LANES;

    #[target_feature(enable = "avx2")]
    pub(super) fn byte_places<const N: usize>(
        parts: &[[u8; LANES]],
        wanted: &[u8; N],
        places: &mut [[u64; N]],
    ) {
        let wanted: [__m256i; N] = std::array::from_fn(|i| _mm256_set1_epi8(wanted[i] as i8));
        for (part, places) in parts.iter().zip(places) {
            let eights = part.as_chunks::<8>().0;
            let half = |from: usize| {
                let eight = |i: usize| i64::from_le_bytes(eights[from + i]);
                _mm256_set_epi64x(eight(3), eight(2), eight(1), eight(0))
            };
            let (low, high) = (half(0), half(4));
            for (place, &wanted) in places.iter_mut().zip(&wanted) {
                let bits =
                    |half| u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, wanted)) as u32);
                *place = bits(low) | bits(high) << 32;
            }
        }
    }
}

/// Eight bytes at once, in a plain integer.
fn eight_at_once<const N: usize>(parts: &[[u8; LANES]], wanted: &[u8; N], places: &mut [[u64; N]]) {
    for (part, places) in parts.iter().zip(places) {
        let eights = part.as_chunks::<8>().0;
        for (place, &wanted) in places.iter_mut().zip(wanted) {
            let bits = |eight: &[u8; 8]| equal_bytes(u64::from_le_bytes(*eight), wanted);
            *place = eights.iter().enumerate().fold(0, |all, (i, e)| all | bits(e) << (8 * i));
        }
    }
}

/// Which of eight bytes are a certain one, as the low eight bits.
fn equal_bytes(eight: u64, byte: u8) -> u64 {
    const SEVEN_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differs = eight ^ u64::from_le_bytes([byte; 8]);
    // The high bit of each byte that differs nowhere: no carry leaves a byte.
    let equal = !(((differs & SEVEN_BITS) + SEVEN_BITS) | differs | SEVEN_BITS);
    // The eight of them side by side.
    (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_finds_what_a_loop_finds() {
        let mut random = 0x5eed_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            (random >> 33) % limit
        };
        let wanted = [b',', b'"', 0x00, 0xff];
        for round in 0..500 {
            let length = below(400) as usize;
            let alphabet = [b'a', b',', b'"', 0x00, 0x80, 0xff, b',' ^ 0x80, 0x01];
            let text: Vec<u8> = (0..length).map(|_| alphabet[below(8) as usize]).collect();
            let expected: Vec<[u64; 4]> = text
                .as_chunks::<LANES>()
                .0
                .iter()
                .map(|part| {
                    wanted.map(|w| {
                        (0..LANES).filter(|&i| part[i] == w).fold(0, |bits, i| bits | 1 << i)
                    })
                })
                .collect();
            let mut found = vec![[0; 4]; expected.len()];
            assert_eq!(byte_places(&text, &wanted, &mut found), expected.len());
            assert_eq!(found, expected, "round {round}");
            let mut found = vec![[0; 4]; expected.len()];
            eight_at_once(text.as_chunks::<LANES>().0, &wanted, &mut found);
            assert_eq!(found, expected, "round {round}, eight at once");
        }
    }
}
