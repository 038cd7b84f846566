//! Ten hours of event time over 20,000 keys: what operators keep is flat once windows close. The binary `replay` does the
//! same over a million keys, or as many as one likes.

use thalweg_sql_tests::replay::{Size, State, replay};

/// Batches and buffers under way come on top of what is kept, and are more or less full.
const GROWTH_MAX: f64 = 1.25;

#[test]
fn state_is_flat_once_windows_close() {
    for state in State::ALL {
        let size = Size { hours: 10, keys: 20_000, rows_per_second: 10, threads: 2 };
        let curve = replay(state, size).expect("the queries are right");
        assert!(curve.bytes.len() >= 10 && curve.rows > 0, "{state}: {curve:?}");
        assert!(curve.growth() <= GROWTH_MAX, "{state}: {curve:?}");
    }
}
