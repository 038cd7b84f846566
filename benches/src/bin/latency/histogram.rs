//! A histogram of nanoseconds in buckets of equal relative width, as in HdrHistogram.
//!
//! A power of two has 64 buckets, so that a quantile is wrong by at most 1/64. It keeps no single value.

/// Buckets in a power of two.
const PER_POWER: u64 = 64;
const PER_POWER_BITS: u32 = PER_POWER.trailing_zeros();

/// See the module.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    greatest_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = bucket(u64::MAX) + 1;
        Histogram { counts: vec![0; buckets], total: 0, greatest_ns: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.greatest_ns = self.greatest_ns.max(ns);
    }

    /// Counts all values of another one.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.greatest_ns = self.greatest_ns.max(other.greatest_ns);
    }

    /// The least bound that a share of the values does not exceed, in nanoseconds; 0 without values.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return greatest_of(bucket).min(self.greatest_ns);
            }
        }
        0
    }

    /// The greatest value, in nanoseconds.
    pub fn greatest_ns(&self) -> u64 {
        self.greatest_ns
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PER_POWER {
        return ns as usize;
    }
    let shift = ns.ilog2() - PER_POWER_BITS;
    ((u64::from(shift) + 1) * PER_POWER + ((ns >> shift) - PER_POWER)) as usize
}

/// The greatest value that falls into a bucket.
fn greatest_of(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PER_POWER, bucket as u64 % PER_POWER);
    match power {
        0 => part,
        _ => ((u128::from(PER_POWER + part + 1) << (power - 1)) - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_sixty_fourth() {
        let mut histogram = Histogram::default();
        (1..=100_000_u64).for_each(|ns| histogram.record(ns * 10));
        for share in [0.01, 0.5, 0.99, 1.0] {
            let (got, wanted) = (histogram.quantile_ns(share) as f64, 1_000_000.0 * share);
            assert!(got >= wanted && got <= wanted * (1.0 + 1.0 / 64.0), "{share}: {got}");
        }
        assert_eq!(histogram.greatest_ns(), 1_000_000);
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }

    #[test]
    fn every_value_has_a_bucket_that_bounds_it() {
        for ns in (0..64).flat_map(|p| [(1_u64 << p) - 1, 1 << p, (1 << p) + 1]).chain([u64::MAX]) {
            assert!(greatest_of(bucket(ns)) >= ns, "{ns}");
            assert!(bucket(ns) == 0 || greatest_of(bucket(ns) - 1) < ns, "{ns}");
        }
    }
}
