//! What a continuous query is about.

use std::fmt;
use std::str::FromStr;

/// See the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Groups by windows: TUMBLE, HOP, CUMULATE, SESSION, in FROM and in GROUP BY, with EMIT.
    Windows,
    /// Windows of windows.
    Cascades,
    /// Joins of rows that have equal windows.
    WindowJoins,
    /// Joins of all types whose sides are kept.
    Joins,
    /// Joins with conditions on both times.
    IntervalJoins,
    /// ASOF and FOR SYSTEM_TIME AS OF.
    AsOf,
    /// Groups that never close.
    Groups,
    /// First rows of partitions, deduplication.
    Ranks,
    /// Window functions.
    Over,
    /// Set operations and DISTINCT.
    Sets,
    /// Lists opened.
    Unnest,
    /// Subqueries over groups.
    Nested,
    /// The random queries that all settings are compared with.
    Plain,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 13] = [
        Kind::Windows,
        Kind::Cascades,
        Kind::WindowJoins,
        Kind::Joins,
        Kind::IntervalJoins,
        Kind::AsOf,
        Kind::Groups,
        Kind::Ranks,
        Kind::Over,
        Kind::Sets,
        Kind::Unnest,
        Kind::Nested,
        Kind::Plain,
    ];

    /// Those that read one table once, so that late rows follow from the order of its rows.
    pub const OF_ONE_TABLE: [Kind; 5] =
        [Kind::Windows, Kind::Cascades, Kind::Groups, Kind::Ranks, Kind::Over];

    fn name(self) -> &'static str {
        match self {
            Kind::Windows => "windows",
            Kind::Cascades => "cascades",
            Kind::WindowJoins => "window-joins",
            Kind::Joins => "joins",
            Kind::IntervalJoins => "interval-joins",
            Kind::AsOf => "as-of",
            Kind::Groups => "groups",
            Kind::Ranks => "ranks",
            Kind::Over => "over",
            Kind::Sets => "sets",
            Kind::Unnest => "unnest",
            Kind::Nested => "nested",
            Kind::Plain => "plain",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        let names: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
        found.ok_or_else(|| format!("there are {}", names.join(", ")))
    }
}
