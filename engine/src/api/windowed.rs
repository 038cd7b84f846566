//! Windows of one's own: an assigner, a trigger and an evictor over a relation.
//!
//! ```
//! use futures::executor::block_on;
//! use thalweg::Session;
//! use thalweg::api::aggregates::sum;
//! use thalweg::api::windows::{CountTrigger, GlobalWindows, KeepLastRows, Windowing};
//! use thalweg::api::col;
//!
//! let session = Session::new();
//! block_on(session.sql("CREATE TABLE t (ts TIMESTAMP, v BIGINT)"))?;
//! block_on(session.sql(
//!     "INSERT INTO t SELECT TIMESTAMP '2026-01-01' + value * INTERVAL '1' SECOND, value FROM generate_series(1, 2500)",
//! ))?;
//! // With each 1,000 rows, the last 100 of them.
//! let windows = Windowing::new(GlobalWindows, CountTrigger::new(1_000)).evictor(KeepLastRows::new(100));
//! let sums = session
//!     .table("t")
//!     .window([], col("ts"), windows)
//!     .group_by([col("window_number")])
//!     .agg([sum(col("v")).alias("total")]);
//! assert_eq!(block_on(sums.collect())?.iter().map(|b| b.num_rows()).sum::<usize>(), 2);
//! # Ok::<(), thalweg::Error>(())
//! ```

use datafusion_expr::{Expr, LogicalPlanBuilder};
use thalweg_planner::{RowWindowKind, RowWindows};
use thalweg_runtime::windowing::Windowing;

use super::relation::Relation;

impl Relation {
    /// The rows with windows, in each of which they leave when its trigger fires: three more columns, `window_start`,
    /// `window_end` and `window_number`, the last of which counts the firings of a key and window from 1 on. Rows go into
    /// windows in the order of their times; in a stream once the watermark has passed them. The end of a window without
    /// bounds is the first time after its last row, and NULL when the input ended before it was complete.
    ///
    /// `time` is a column of a timestamp type; rows with different `keys` are in different windows. The session keeps the
    /// windowing for as long as it lives.
    pub fn window(
        self,
        keys: impl IntoIterator<Item = Expr>,
        time: Expr,
        windowing: Windowing,
    ) -> Self {
        self.windowed(keys.into_iter().collect(), time, windowing, false)
    }

    /// The same with rows that go into windows as they come.
    pub fn window_by_arrival(
        self,
        keys: impl IntoIterator<Item = Expr>,
        time: Expr,
        windowing: Windowing,
    ) -> Self {
        self.windowed(keys.into_iter().collect(), time, windowing, true)
    }

    fn windowed(self, keys: Vec<Expr>, time: Expr, windowing: Windowing, by_arrival: bool) -> Self {
        let timely = windowing.trigger.is_timely();
        let number = self.session().add_windowing(windowing);
        self.then(|builder| {
            let kind = RowWindowKind::Own { number, timely };
            let windows = RowWindows::new(builder.build()?, kind, keys, time, None, by_arrival)?;
            Ok(LogicalPlanBuilder::from(windows.into_plan()))
        })
    }
}
