//! Makes a list smaller as long as something about it stays true.

use std::ops::Range;

/// Attempts at most; each runs a query in new sessions.
const ATTEMPTS_MAX: usize = 300;

/// The smallest list found for which `fails` holds: halves are left out first, then ever smaller parts.
pub(super) fn shrink<T>(
    start: T,
    len: impl Fn(&T) -> usize,
    without: impl Fn(&T, Range<usize>) -> T,
    mut fails: impl FnMut(&T) -> bool,
) -> T {
    let mut smallest = start;
    let mut attempts = 0;
    let mut part = len(&smallest).div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < len(&smallest) {
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return smallest;
            }
            let candidate = without(&smallest, at..at + part);
            if fails(&candidate) {
                smallest = candidate;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_stays() {
        let without = |list: &Vec<u32>, places: Range<usize>| {
            let kept = |(at, _): &(usize, &u32)| !places.contains(at);
            list.iter().enumerate().filter(kept).map(|(_, n)| *n).collect()
        };
        let needed = |list: &Vec<u32>| list.contains(&3) && list.contains(&17);
        assert_eq!(shrink((0..40).collect(), Vec::len, without, needed), [3, 17]);
    }
}
