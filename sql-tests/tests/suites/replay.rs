//! Ten hours of event time over 20,000 keys: what operators keep is flat once windows close. The binary `replay` does the
//! same over a million keys, or as many as one likes.

use thalweg_sql_tests::replay::{Size, State, replay};

/// Batches and buffers under way come on top of what is kept, and are more or less full. Where each hour leaves the same
/// behind, growth is 1.6.
const GROWTH_MAX: f64 = 1.4;

/// What is under way may grow by chance while nothing is left behind; what is left behind grows each time.
const REPLAYS: usize = 5;

#[test]
fn state_is_flat_once_windows_close() {
    for state in State::ALL {
        let size = Size { hours: 10, keys: 20_000, rows_per_second: 10, threads: 2 };
        let mut curves = Vec::new();
        let is_flat = (0..REPLAYS).any(|_| {
            let curve = replay(state, size).expect("the queries are right");
            assert!(curve.bytes.len() >= 10 && curve.rows > 0, "{state}: {curve:?}");
            curves.push(curve.clone());
            curve.growth() <= GROWTH_MAX
        });
        assert!(is_flat, "{state}: {curves:?}");
    }
}
