//! Where certain bytes are in a text, a bit for each byte, and where bits are set, a number for each.
//!
//! Processors compare many bytes at once; which of them can is found out when the program runs, and calling what not all of
//! them have is why this is here, where `unsafe` is. All ways give the same: the first of 64 bytes is the lowest bit.

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
    match Vectors::of_processor() {
        Vectors::Avx512 => {
            #[expect(
                unsafe_code,
                reason = "the processor has just said that it has these instructions"
            )]
            // SAFETY: AVX-512 is there.
            unsafe {
                avx512::byte_places(parts, wanted, places);
            }
            return count;
        }
        Vectors::Avx2 => {
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
        Vectors::None => {}
    }
    eight_at_once(parts, wanted, places);
    count
}

/// Writes where bits are set, the lowest of the first number as `base`; the answer is how many are. What of `out` is not
/// needed stays or is written over.
///
/// # Panics
///
/// If `out` has no room for all bits of all numbers, set or not.
pub fn bit_places(numbers: &[u64], base: u32, out: &mut [u32]) -> usize {
    assert!(out.len() >= numbers.len() * LANES, "too little room for places");
    #[cfg(target_arch = "x86_64")]
    if let Vectors::Avx512 = Vectors::of_processor() {
        #[expect(
            unsafe_code,
            reason = "the processor has just said that it has these instructions"
        )]
        // SAFETY: AVX-512 is there, and so is room for all bits.
        return unsafe { avx512::bit_places(numbers, base, out) };
    }
    one_bit_after_another(numbers, base, out)
}

fn one_bit_after_another(numbers: &[u64], base: u32, out: &mut [u32]) -> usize {
    /// Places that are written without asking whether there are as many: fewer questions are answered wrongly.
    const AT_ONCE: usize = 4;
    let (mut filled, mut base) = (0, base);
    for &number in numbers {
        let mut bits = number;
        for out in out[filled..filled + LANES].chunks_exact_mut(AT_ONCE) {
            for place in out {
                *place = base.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
            }
            if bits == 0 {
                break;
            }
        }
        filled += number.count_ones() as usize;
        base = base.wrapping_add(LANES as u32);
    }
    filled
}

/// What a processor has for many bytes at once.
#[cfg(target_arch = "x86_64")]
enum Vectors {
    Avx512,
    Avx2,
    None,
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    #[inline]
    fn of_processor() -> Self {
        let has_avx512 = std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vbmi2")
            && std::arch::is_x86_feature_detected!("popcnt");
        if has_avx512 {
            Vectors::Avx512
        } else if std::arch::is_x86_feature_detected!("avx2") {
            Vectors::Avx2
        } else {
            Vectors::None
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    //! 64 bytes at once, and the places of 64 bits.

    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_castsi512_si128, _mm512_cmpeq_epi8_mask,
        _mm512_cvtepu8_epi32, _mm512_loadu_si512, _mm512_maskz_compress_epi8, _mm512_set1_epi8,
        _mm512_set1_epi32, _mm512_shuffle_i32x4, _mm512_storeu_si512,
    };

    use super::LANES;

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn byte_places<const N: usize>(
        parts: &[[u8; LANES]],
        wanted: &[u8; N],
        places: &mut [[u64; N]],
    ) {
        let wanted: [__m512i; N] = std::array::from_fn(|i| _mm512_set1_epi8(wanted[i] as i8));
        for (part, places) in parts.iter().zip(places) {
            let part = load(part);
            for (place, &wanted) in places.iter_mut().zip(&wanted) {
                *place = _mm512_cmpeq_epi8_mask(part, wanted);
            }
        }
    }

    /// # Safety
    ///
    /// There must be room for all bits.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    #[expect(unsafe_code, reason = "sixteen places are stored at once")]
    pub(super) unsafe fn bit_places(numbers: &[u64], base: u32, out: &mut [u32]) -> usize {
        /// Places in one vector.
        const AT_ONCE: usize = 16;
        let lanes = load(&std::array::from_fn(|i| i as u8));
        let (mut filled, mut base) = (0, base);
        for &bits in numbers {
            let count = bits.count_ones() as usize;
            let (mut set, mut done) = (_mm512_maskz_compress_epi8(bits, lanes), 0);
            loop {
                let sixteen = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(set));
                let sixteen = _mm512_add_epi32(sixteen, _mm512_set1_epi32(base as i32));
                // SAFETY: `filled` is at most the bits of the numbers before, and there is room for those of this one.
                unsafe {
                    _mm512_storeu_si512(out.as_mut_ptr().add(filled + done).cast(), sixteen);
                }
                done += AT_ONCE;
                if done >= count {
                    break;
                }
                set = _mm512_shuffle_i32x4::<0b00_11_10_01>(set, set);
            }
            filled += count;
            base = base.wrapping_add(LANES as u32);
        }
        filled
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    #[expect(unsafe_code, reason = "64 bytes are loaded at once")]
    fn load(bytes: &[u8; LANES]) -> __m512i {
        // SAFETY: these are 64 bytes; no alignment is asked for.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }
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
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                let mut found = vec![[0; 4]; expected.len()];
                #[expect(unsafe_code, reason = "tests one of the ways")]
                // SAFETY: AVX2 is there.
                unsafe {
                    avx2::byte_places(text.as_chunks::<LANES>().0, &wanted, &mut found);
                }
                assert_eq!(found, expected, "round {round}, 32 at once");
            }
        }
    }

    #[test]
    fn every_way_finds_the_bits_that_are_set() {
        let mut random = 0xb175_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            random.rotate_left(32)
        };
        for round in 0..500_u32 {
            let numbers: Vec<u64> = (0..next() % 9)
                .map(|_| match next() % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => next() & next() & next(),
                    _ => next(),
                })
                .collect();
            let base = round * 1_000;
            let expected: Vec<u32> = numbers
                .iter()
                .zip(0_u32..)
                .flat_map(|(number, i)| {
                    (0..64).filter(move |bit| number >> bit & 1 == 1).map(move |bit| i * 64 + bit)
                })
                .map(|place| base + place)
                .collect();
            let mut out = vec![0; numbers.len() * LANES];
            let count = bit_places(&numbers, base, &mut out);
            assert_eq!(out[..count], expected, "round {round}");
            let count = one_bit_after_another(&numbers, base, &mut out);
            assert_eq!(out[..count], expected, "round {round}, one after another");
        }
    }
}
