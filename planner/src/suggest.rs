//! "Did you mean": the known names nearest to a misspelt one.
//!
//! Distance is the number of single-character edits (insert, delete, replace, swap neighbours), letter case ignored.
//! Only names within a third of the misspelt name's length are offered, so that a suggestion is never a mere guess.

/// The most names a suggestion offers.
const MAX_SUGGESTIONS: usize = 3;

/// The known names nearest to `name`, best first, at most three; empty when none is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (wanted.len() / 3).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.to_lowercase().chars().collect();
            let distance = edit_distance(&wanted, &other);
            (distance <= limit && distance < wanted.len().max(other.len()))
                .then_some((distance, candidate))
        })
        .collect();
    near.sort();
    near.dedup();
    // Names clearly worse than the best only distract.
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .filter(|(distance, _)| *distance <= best + 1)
        .take(MAX_SUGGESTIONS)
        .map(|(_, n)| n)
        .collect()
}

/// A sentence for an error's hint: `did you mean "a" or "b"?`; `None` when no known name is near.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let quoted: Vec<String> =
        nearest(name, known).into_iter().map(|n| format!("\"{n}\"")).collect();
    match quoted.as_slice() {
        [] => None,
        [one] => Some(format!("did you mean {one}?")),
        [init @ .., last] => Some(format!("did you mean {} or {last}?", init.join(", "))),
    }
}

/// Edits between two words, with a swap of neighbours counted once (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    if a.len().abs_diff(b.len()) > 4 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_best_first() {
        assert_eq!(
            nearest("custmer", ["orders", "customer", "custmers"]),
            ["custmers", "customer"]
        );
        assert_eq!(nearest("ordres", ["customer", "orders"]), ["orders"]);
    }

    #[test]
    fn far_names_are_not_offered() {
        assert!(nearest("x", ["y", "customer"]).is_empty());
        assert!(nearest("region", ["nation_key"]).is_empty());
        assert_eq!(did_you_mean("region", ["lineage"]), None);
    }

    #[test]
    fn the_sentence_joins_names_with_or() {
        assert_eq!(did_you_mean("coutn", ["count"]).as_deref(), Some("did you mean \"count\"?"));
        assert_eq!(
            did_you_mean("threds", ["threads", "treads"]).as_deref(),
            Some("did you mean \"threads\" or \"treads\"?")
        );
    }

    #[test]
    fn distance_counts_a_swap_once() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(edit_distance(&chars("ab"), &chars("ba")), 1);
        assert_eq!(edit_distance(&chars("kitten"), &chars("sitting")), 3);
        assert_eq!(edit_distance(&chars(""), &chars("abc")), 3);
    }
}
