//! The MD5 digest of RFC 1321: for comparing texts, not for security.

/// How far each round's words are rotated, four steps in turn.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of a message.
pub(super) fn digest(message: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let blocks = message.chunks_exact(64);
    let rest = blocks.remainder();
    blocks.for_each(|block| update(&mut state, block));
    let mut tail = [0_u8; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let length = if rest.len() < 56 { 64 } else { 128 };
    let bits = (message.len() as u64).wrapping_mul(8);
    tail[length - 8..length].copy_from_slice(&bits.to_le_bytes());
    tail[..length].chunks_exact(64).for_each(|block| update(&mut state, block));
    let mut out = [0; 16];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Takes a block of 64 bytes in.
fn update(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (mixed, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), 7 * step % 16),
        };
        // The standard's table of constants: the whole part of 2^32 times the sine of the step.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(words[word]);
        let rotated = sum.rotate_left(ROTATIONS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (word, value) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(text: &str) -> String {
        digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_digests_of_the_standard() {
        assert_eq!(hexadecimal(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hexadecimal("abc"), "900150983cd24fb0d6963f7d28e17f72");
        let long = "1234567890".repeat(8);
        assert_eq!(hexadecimal(&long), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
