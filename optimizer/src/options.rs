//! What a caller may set.
//!
//! Invariant: a switch that is off forbids a strategy wherever another can do the work; it never makes a query
//! unplannable.

/// Settings of one optimization.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerOptions {
    /// Threads the query may use; with one, every node is a singleton.
    pub threads: usize,
    /// Rows in a batch.
    pub batch: usize,
    /// Which exchanges block.
    pub exchange_mode: ExchangePolicy,
    /// Which strategies may be chosen.
    pub strategies: StrategySwitches,
    /// Bytes the query may hold in memory; beyond, operators spill and pay for it.
    pub memory_limit: Option<u64>,
    /// Whether the query runs as a stream although all its tables have an end.
    pub streaming: bool,
    /// Microseconds after which state that no watermark bounds is forgotten; 0 keeps it for ever.
    pub state_ttl_us: i64,
    /// What the reader of a result that goes on changing can do with it.
    pub result: ResultUse,
    /// Whether operators get all columns of their inputs, also those that nothing reads.
    pub all_columns: bool,
    /// Pairs of connected subplans that join ordering may look at before it falls back to linearised search.
    pub pair_budget: usize,
}

impl Default for OptimizerOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            batch: 8192,
            exchange_mode: ExchangePolicy::Automatic,
            strategies: StrategySwitches::default(),
            memory_limit: None,
            streaming: false,
            state_ttl_us: 0,
            result: ResultUse::Rows,
            all_columns: false,
            pair_budget: 20_000,
        }
    }
}

/// What the reader of a result can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultUse {
    /// Rows that stay: of a result that changes those that are left at its end.
    #[default]
    Rows,
    /// Changes: rows that are inserted and deleted. An order means nothing then.
    Changelog,
}

/// Which exchanges block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExchangePolicy {
    /// Only those that must, lest a plan deadlock.
    #[default]
    Automatic,
    /// As `Automatic`: an exchange that must block does so all the same.
    Pipelined,
    /// Every exchange that is not `Forward`.
    Blocking,
}

/// Strategies that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategySwitches {
    /// Joins by hashing.
    pub hash_join: bool,
    /// Joins of sorted inputs.
    pub sort_merge_join: bool,
    /// Joins by comparing every pair where there are keys to do better.
    pub nested_loop_join: bool,
    /// Builds shared by all subtasks.
    pub broadcast: bool,
    /// Aggregation by hashing.
    pub hash_aggregate: bool,
    /// Aggregation of sorted inputs.
    pub sort_aggregate: bool,
    /// Aggregation in a partial and a final phase.
    pub two_phase_aggregate: bool,
    /// Windows that overlap put together from slices.
    pub sliced_windows: bool,
    /// One scan for all readers of a table, in queries that run as streams.
    pub shared_scans: bool,
    /// Keeping only the first rows instead of sorting all.
    pub top_n: bool,
    /// Filters passed from builds to scans.
    pub runtime_filters: bool,
    /// Grouping keys that stay in the build they come from until their group leaves.
    pub late_keys: bool,
    /// Join orders other than the written one.
    pub join_reordering: bool,
}

impl Default for StrategySwitches {
    fn default() -> Self {
        Self {
            hash_join: true,
            sort_merge_join: true,
            nested_loop_join: true,
            broadcast: true,
            hash_aggregate: true,
            sort_aggregate: true,
            two_phase_aggregate: true,
            sliced_windows: true,
            shared_scans: true,
            top_n: true,
            runtime_filters: true,
            late_keys: true,
            join_reordering: true,
        }
    }
}

impl StrategySwitches {
    /// The switches' names, as the setting `optimizer.<name>` spells them.
    pub const NAMES: [&'static str; 13] = [
        "hash_join",
        "sort_merge_join",
        "nested_loop_join",
        "broadcast",
        "hash_aggregate",
        "sort_aggregate",
        "two_phase_aggregate",
        "sliced_windows",
        "shared_scans",
        "top_n",
        "runtime_filters",
        "late_keys",
        "join_reordering",
    ];

    /// The switch of that name; `None` if there is none.
    pub fn switch_mut(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "hash_join" => &mut self.hash_join,
            "sort_merge_join" => &mut self.sort_merge_join,
            "nested_loop_join" => &mut self.nested_loop_join,
            "broadcast" => &mut self.broadcast,
            "hash_aggregate" => &mut self.hash_aggregate,
            "sort_aggregate" => &mut self.sort_aggregate,
            "two_phase_aggregate" => &mut self.two_phase_aggregate,
            "sliced_windows" => &mut self.sliced_windows,
            "shared_scans" => &mut self.shared_scans,
            "top_n" => &mut self.top_n,
            "runtime_filters" => &mut self.runtime_filters,
            "late_keys" => &mut self.late_keys,
            "join_reordering" => &mut self.join_reordering,
            _ => return None,
        })
    }
}
