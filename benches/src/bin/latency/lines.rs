//! The lines that are sent: more than 256 MB of distinct lines of 100 bytes, a quarter of which hold the pattern.
//!
//! What sinks must find follows from the lines alone: for each prefix of the pool the number of matches and the sum of
//! their hashes are kept.

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a line.
pub const LINE_BYTES: usize = 100;

/// What is looked for.
pub const PATTERN: &str = "thalweg";

/// Bytes that the pool has at least.
const POOL_BYTES_MIN: usize = 256 << 20;

/// One line in so many holds the pattern.
const MATCH_EVERY: u64 = 4;

/// The letters of random text; no pattern can come of them.
const LETTERS: &[u8; 32] = b"abcdfijkmnopqrsuvxyz 0123456789.";

/// What a sink has taken, or must take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines.
    pub count: u64,
    /// The sum of their hashes, modulo 2^64.
    pub checksum: u64,
}

impl Tally {
    /// Takes a line.
    pub fn take(&mut self, line: &[u8]) {
        self.count += 1;
        self.checksum = self.checksum.wrapping_add(xxh3_64(line));
    }

    /// Both together.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            count: self.count + other.count,
            checksum: self.checksum.wrapping_add(other.checksum),
        }
    }

    fn minus(self, other: Tally) -> Tally {
        Tally {
            count: self.count - other.count,
            checksum: self.checksum.wrapping_sub(other.checksum),
        }
    }

    fn times(self, n: u64) -> Tally {
        Tally { count: self.count * n, checksum: self.checksum.wrapping_mul(n) }
    }
}

/// The pool of lines, one after the other.
pub struct Lines {
    bytes: Vec<u8>,
    /// The matches among the first `i` lines.
    before: Vec<Tally>,
}

impl Lines {
    /// The pool, always the same.
    pub fn generate() -> Self {
        Self::of(POOL_BYTES_MIN.div_ceil(LINE_BYTES))
    }

    /// The first lines of the pool.
    pub fn of(lines: usize) -> Self {
        let mut bytes = Vec::with_capacity(lines * LINE_BYTES);
        let mut before = Vec::with_capacity(lines + 1);
        before.push(Tally::default());
        let mut tally = Tally::default();
        for line in 0..lines as u64 {
            let start = bytes.len();
            append_line(line, &mut bytes);
            if mixed(line).is_multiple_of(MATCH_EVERY) {
                let at = start + 20 + (mixed(line) >> 32) as usize % 70;
                bytes[at..at + PATTERN.len()].copy_from_slice(PATTERN.as_bytes());
                tally.take(&bytes[start..]);
            }
            before.push(tally);
        }
        Lines { bytes, before }
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.before.len() - 1
    }

    /// The bytes of `n` lines from one on, as far as the pool goes.
    pub fn stretch(&self, first: usize, n: usize) -> &[u8] {
        let end = (first + n).min(self.len());
        &self.bytes[first * LINE_BYTES..end * LINE_BYTES]
    }

    /// The matches among `n` lines from one on, going round.
    pub fn matches(&self, first: usize, n: u64) -> Tally {
        let all = self.before[self.len()];
        let to = first as u64 + n;
        let (rounds, rest) = (to / self.len() as u64, (to % self.len() as u64) as usize);
        all.times(rounds).plus(self.before[rest]).minus(self.before[first])
    }
}

/// The line's number, so that no two are alike, and random text behind it.
fn append_line(line: u64, bytes: &mut Vec<u8>) {
    bytes.extend(format!("{line:016} ").bytes());
    let mut state = line;
    while !bytes.len().is_multiple_of(LINE_BYTES) {
        state = mixed(state);
        let room = LINE_BYTES - bytes.len() % LINE_BYTES;
        let letters = (0..12.min(room)).map(|i| LETTERS[(state >> (5 * i)) as usize % 32]);
        bytes.extend(letters);
    }
}

/// SplitMix64's step: every number goes to another one, in no visible order.
pub fn mixed(number: u64) -> u64 {
    let state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_distinct_and_matches_are_known() {
        let lines = Lines::of(1_000);
        let all: Vec<&[u8]> = lines.bytes.chunks(LINE_BYTES).collect();
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (1_000, 1_000));
        let mut tally = Tally::default();
        for i in 700..2_300 {
            let line = std::str::from_utf8(all[i % 1_000]).unwrap();
            if line.contains(PATTERN) {
                tally.take(line.as_bytes());
            }
        }
        assert_eq!(lines.matches(700, 1_600), tally);
        assert!((300..500).contains(&tally.count), "about a quarter: {tally:?}");
        assert_eq!(lines.stretch(990, 20).len(), 10 * LINE_BYTES);
    }
}
