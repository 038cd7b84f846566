//! The constants of the cost model, each with its unit.
//!
//! Source: orders of magnitude of a current x86 server core with data in columns; the benches calibrate them.

/// Decoding one value of a column of a table, nanoseconds.
pub const SCAN_VALUE_NS: f64 = 1.5;
/// Handling one row in a scan whatever its columns, nanoseconds.
pub const SCAN_ROW_NS: f64 = 0.5;
/// Decoding one byte beyond a fixed-width value, nanoseconds.
pub const SCAN_BYTE_NS: f64 = 0.15;
/// Evaluating one node of an expression for one row, nanoseconds.
pub const EXPRESSION_NODE_NS: f64 = 1.0;
/// Extra work of one string comparison or pattern match, nanoseconds.
pub const STRING_OPERATION_NS: f64 = 15.0;
/// Inserting one row into a join's hash table, nanoseconds, while the table is in cache.
pub const HASH_BUILD_ROW_NS: f64 = 20.0;
/// Copying one byte into rows in pages, nanoseconds.
pub const ROW_COPY_BYTE_NS: f64 = 0.15;
/// Hashing one key and probing a table in cache, nanoseconds.
pub const HASH_PROBE_ROW_NS: f64 = 9.0;
/// Testing one row against a runtime filter, nanoseconds.
pub const FILTER_TEST_NS: f64 = 1.5;
/// Extra key columns of a hash or a comparison, nanoseconds per row.
pub const EXTRA_KEY_NS: f64 = 3.0;
/// One access beyond the private cache, nanoseconds (several are in flight).
pub const L2_MISS_NS: f64 = 6.0;
/// One access beyond the shared cache, nanoseconds (several are in flight).
pub const L3_MISS_NS: f64 = 25.0;
/// The private cache of a core, bytes.
pub const L2_BYTES: f64 = 1_048_576.0;
/// The cache shared by the cores, bytes.
pub const L3_BYTES: f64 = 33_554_432.0;
/// Memory per row of a hash table beyond the row itself, bytes.
pub const HASH_ENTRY_BYTES: f64 = 16.0;
/// Writing one joined row to the output, nanoseconds.
pub const OUTPUT_ROW_NS: f64 = 2.0;
/// Copying one byte of a column to the output, nanoseconds.
pub const OUTPUT_BYTE_NS: f64 = 0.1;
/// Updating the state of one aggregate for one row, nanoseconds.
pub const AGGREGATE_UPDATE_NS: f64 = 3.0;
/// Finding the group of one row in a table in cache, nanoseconds.
pub const GROUP_LOOKUP_NS: f64 = 10.0;
/// Remembering one value of a DISTINCT aggregate, nanoseconds.
pub const DISTINCT_VALUE_NS: f64 = 30.0;
/// Comparing two rows in a sort, nanoseconds.
pub const COMPARE_NS: f64 = 4.0;
/// Merging one row of a sorted input, nanoseconds.
pub const MERGE_ROW_NS: f64 = 8.0;
/// Evaluating one pair of a nested-loop join, nanoseconds.
pub const PAIR_NS: f64 = 1.5;
/// One row through a window function, nanoseconds.
pub const WINDOW_ROW_NS: f64 = 10.0;
/// Assigning one row to a target subtask and gathering it there, nanoseconds.
pub const REPARTITION_ROW_NS: f64 = 8.0;
/// Passing one row on, nanoseconds: batches move whole.
pub const FORWARD_ROW_NS: f64 = 0.1;
/// Starting and ending an operator with an exchange, nanoseconds per subtask.
pub const EXCHANGE_STARTUP_NS: f64 = 20_000.0;
/// Time for one exchanged byte inside a process (a memory copy), nanoseconds.
pub const MEMORY_COPY_BYTE_NS: f64 = 0.2;
/// Time for one exchanged byte between machines (10 Gbit/s and its handling), nanoseconds.
pub const NETWORK_BYTE_NS: f64 = 1.0;
/// Time for one byte to or from a local disk, nanoseconds.
pub const DISK_BYTE_NS: f64 = 0.7;
