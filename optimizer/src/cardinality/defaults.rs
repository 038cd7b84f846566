//! Guesses for what no statistics tell. Each is the default of last resort and is marked as such in EXPLAIN.

/// Rows of a table of which nothing is known.
pub(super) const TABLE_ROWS: f64 = 10_000.0;
/// Share of rows that pass a condition of which nothing is known.
pub(super) const CONDITION: f64 = 0.25;
/// Share of rows with one given value of a column whose distinct values are unknown, at least.
pub(super) const EQUALITY: f64 = 0.02;
/// Share of rows that pass one inequality on a column without known bounds.
pub(super) const INEQUALITY: f64 = 0.33;
/// Share of rows with a positive number in a column without known bounds: most quantities are positive.
pub(super) const POSITIVE: f64 = 0.9;
/// Rows per possible value up to which a column of dense numbers is believed to be a key.
pub(super) const KEY_ROWS_PER_VALUE: f64 = 1.1;
/// A key column that has less than this share of the other side's values does not cover the other side.
pub(super) const COVERING_SHARE: f64 = 0.95;
/// Share of rows that match a pattern with a fixed beginning.
pub(super) const LIKE_PREFIX: f64 = 0.04;
/// Share of rows that match a pattern with a fixed part somewhere.
pub(super) const LIKE_CONTAINS: f64 = 0.08;
/// Share of NULLs in a nullable column without statistics.
pub(super) const NULL_FRACTION: f64 = 0.02;
/// Distinct values of a column without statistics: the rows to this power.
pub(super) const DISTINCT_EXPONENT: f64 = 0.7;
/// Distinct values of a column without statistics, at least (rows permitting).
pub(super) const DISTINCT_MIN: f64 = 200.0;
/// Different characters that a position of a short string takes.
pub(super) const ALPHABET: f64 = 16.0;
/// Bytes of a string without statistics.
pub(super) const STRING_WIDTH: f64 = 20.0;
/// Bytes of a nested value without statistics.
pub(super) const NESTED_WIDTH: f64 = 64.0;
/// Exponents of the second, third, … strongest conjunct: conditions are seldom independent.
pub(super) const CONJUNCT_EXPONENTS: [f64; 4] = [1.0, 0.85, 0.7, 0.55];
/// By how much each further key of which nothing is known multiplies the groups: such keys mostly describe the same
/// thing.
pub(super) const UNKNOWN_KEY_FACTOR: f64 = 3.0;
/// Exponent of each further key column in the number of groups.
pub(super) const GROUP_EXPONENT: f64 = 0.8;
/// Least share of rows that an anti join is believed to keep.
pub(super) const ANTI_FLOOR: f64 = 0.02;
/// Elements of a list.
pub(super) const LIST_LENGTH: f64 = 5.0;
/// Rows of a recursive query per row of its static term.
pub(super) const RECURSION_GROWTH: f64 = 10.0;
