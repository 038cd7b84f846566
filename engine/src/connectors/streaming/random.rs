//! Numbers that look random and follow from a seed and a position alone, so that any subtask can make any row.

/// An odd number with well-spread bits; positions are spread by it before they are mixed.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number; a bijection in which each bit of the result depends on every bit of the number.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A sequence of numbers, one a position. Different keys give sequences that have nothing to do with each other.
#[derive(Debug, Clone, Copy)]
pub struct Stream(u64);

impl Stream {
    /// The sequence number `key` of a seed.
    pub fn new(seed: u64, key: u64) -> Self {
        Stream(mix(mix(seed.wrapping_add(SPREAD)) ^ key.wrapping_mul(SPREAD)))
    }

    /// All of 64 bits.
    pub fn bits(self, position: u64) -> u64 {
        mix(self.0.wrapping_add(position.wrapping_add(1).wrapping_mul(SPREAD)))
    }

    /// One of the whole numbers below `bound`; `bound` must not be 0.
    pub fn below(self, position: u64, bound: u64) -> u64 {
        ((u128::from(self.bits(position)) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to, but without, 1.
    pub fn unit(self, position: u64) -> f64 {
        // 53 bits are what a double holds.
        (self.bits(position) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_seed_key_and_position() {
        let stream = Stream::new(1, 2);
        assert_eq!(stream.bits(3), Stream::new(1, 2).bits(3));
        assert_ne!(stream.bits(3), stream.bits(4));
        assert_ne!(stream.bits(3), Stream::new(1, 3).bits(3));
        assert_ne!(stream.bits(3), Stream::new(2, 2).bits(3));
    }

    #[test]
    fn numbers_are_spread_over_their_range() {
        let stream = Stream::new(7, 0);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|i| counts[stream.below(i, 10) as usize] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        let mean = (0..10_000).map(|i| stream.unit(i)).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
