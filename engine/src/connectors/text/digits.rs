//! Decimal digits, eight at a time.

/// The number that up to eight digits are; `None` for anything else, and for nothing.
#[inline]
pub fn digits(text: &[u8]) -> Option<u64> {
    let length = text.len();
    // The text at the end of eight bytes, which are put together from pieces that may overlap.
    let bytes = match length {
        8 => u64::from_le_bytes(*text.first_chunk()?),
        4..=7 => {
            let first = u64::from(u32::from_le_bytes(*text.first_chunk()?));
            let last = u64::from(u32::from_le_bytes(*text.last_chunk()?));
            first << (8 * (8 - length)) | last << 32
        }
        1..=3 => {
            let (first, middle, last) = (text[0], text[length / 2], text[length - 1]);
            let middle_at = 8 - length + length / 2;
            u64::from(first) << (8 * (8 - length))
                | u64::from(middle) << (8 * middle_at)
                | u64::from(last) << 56
        }
        _ => return None,
    };
    let zeros = u64::from_le_bytes([b'0'; 8]);
    // What is in front are zeros; a shift by all 64 bits does not occur, as there is a digit.
    let in_front = zeros & ((1_u64 << (8 * (8 - length))) - 1);
    eight_digits(bytes | in_front)
}

/// The number that eight digits are; the first of them is the lowest byte.
#[inline]
pub fn eight_digits(bytes: u64) -> Option<u64> {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    const TO_HIGH_BIT: u64 = 0x7676_7676_7676_7676;
    let values = bytes ^ u64::from_le_bytes([b'0'; 8]);
    // A value above nine, with 0x76 added, reaches the high bit, or has it. No byte carries into the next unless one did.
    if (values | (values & !HIGH_BITS).wrapping_add(TO_HIGH_BIT)) & HIGH_BITS != 0 {
        return None;
    }
    // Neighbours become pairs, pairs fours, and fours the number.
    let pairs = (values.wrapping_mul(10)).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100)).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::testing::Random;

    #[test]
    fn digits_are_what_the_standard_library_reads() {
        let mut random = Random(0xd161);
        for round in 0..50_000 {
            let length = random.below(10);
            let mut text: Vec<u8> = (0..length).map(|_| b'0' + random.below(10) as u8).collect();
            if random.below(3) == 0 && length > 0 {
                text[random.below(length)] = random.below(256) as u8;
            }
            let all_digits = text.iter().all(u8::is_ascii_digit) && (1..=8).contains(&length);
            let expected = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
            let expected: Option<u64> = expected.filter(|_| all_digits);
            assert_eq!(digits(&text), expected, "round {round}: {text:?}");
        }
    }
}
