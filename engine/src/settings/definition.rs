//! The list of all settings: name, kind, default and documentation.
//!
//! A new setting is one entry here; reading it is one method of [`Settings`](super::Settings).

use std::sync::LazyLock;

use thalweg_optimizer::StrategySwitches;

use super::machine;
use super::value::{SettingKind, SettingValue};

/// The prefix of the switches of the optimizer's strategies.
pub(super) const STRATEGY_PREFIX: &str = "optimizer.";

/// The most threads a session may use.
const THREADS_MAX: u64 = 1024;

/// The least memory with which a query can do anything.
const MEMORY_MIN_BYTES: u64 = 1 << 20;

/// The most rows a batch may have.
const BATCH_SIZE_MAX: u64 = 1 << 20;

/// One setting.
#[derive(Debug)]
pub struct SettingDefinition {
    /// Its name, dots included.
    pub name: String,
    /// What it takes.
    pub kind: SettingKind,
    /// What it does, in one sentence or two.
    pub description: String,
    default: fn() -> SettingValue,
}

impl SettingDefinition {
    /// The value it has until it is set; some defaults ask the machine.
    pub fn default_value(&self) -> SettingValue {
        (self.default)()
    }
}

/// All settings, sorted by name.
pub fn definitions() -> &'static [SettingDefinition] {
    static DEFINITIONS: LazyLock<Vec<SettingDefinition>> = LazyLock::new(|| {
        let mut all = resources();
        all.extend(streaming());
        all.extend(planning());
        all.extend(StrategySwitches::NAMES.iter().map(|name| strategy(name)));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    });
    &DEFINITIONS
}

fn define(
    name: &str,
    kind: SettingKind,
    default: fn() -> SettingValue,
    description: &str,
) -> SettingDefinition {
    SettingDefinition {
        name: name.to_string(),
        kind,
        description: description.to_string(),
        default,
    }
}

fn on() -> SettingValue {
    SettingValue::Switch(true)
}

fn off() -> SettingValue {
    SettingValue::Switch(false)
}

fn unlimited() -> SettingValue {
    SettingValue::Bytes(None)
}

fn no_time() -> SettingValue {
    SettingValue::Duration(0)
}

fn automatic() -> SettingValue {
    SettingValue::Choice("automatic")
}

fn resources() -> Vec<SettingDefinition> {
    vec![
        define(
            "threads",
            SettingKind::Count { min: 1, max: THREADS_MAX },
            || SettingValue::Count(machine::cores()),
            "Threads that run queries, and subtasks of each parallel operator. The default is the number of cores.",
        ),
        define(
            "batch_size",
            SettingKind::Count { min: 1, max: BATCH_SIZE_MAX },
            || SettingValue::Count(8192),
            "Rows that a batch between operators has at most.",
        ),
        define(
            "memory_limit",
            SettingKind::Bytes { min: MEMORY_MIN_BYTES },
            || {
                SettingValue::Bytes(
                    machine::memory_bytes().map(|bytes| (bytes / 10 * 8) >> 20 << 20),
                )
            },
            "Memory of the process, with units of powers of two (1 MB is 2^20 bytes); a query that would need more ends \
             with an error, as operators do not spill. The default is 80 percent of the memory of the machine or its \
             container.",
        ),
        define(
            "spill_directory",
            SettingKind::Directory,
            || SettingValue::Text(std::env::temp_dir().to_string_lossy().into_owned()),
            "Directory of files for input that can be read only once, such as standard input; the files have no name and \
             vanish with the process. Operators do not spill to it.",
        ),
        define(
            "max_spill_size",
            SettingKind::Bytes { min: 0 },
            unlimited,
            "Bytes that one file in spill_directory may have.",
        ),
    ]
}

fn streaming() -> Vec<SettingDefinition> {
    vec![
        define(
            "buffer_timeout",
            SettingKind::Duration { minus_one: true },
            || SettingValue::Duration(100_000),
            "How long an incomplete buffer of a continuous query waits before it is sent on; 0 sends what each step \
             produced, -1 sends full buffers only. The hint OPTIONS('buffer_timeout' = '…') sets it for a part of a query. It \
             has no effect on batch queries.",
        ),
        define(
            "latency_target",
            SettingKind::Duration { minus_one: false },
            no_time,
            "Time from a row's arrival to its effect in the result of a continuous query that buffer timeouts are steered \
             towards, between 0 and buffer_timeout (or its default where that is -1); 0 steers nothing.",
        ),
        define(
            "view_commit_interval",
            SettingKind::Duration { minus_one: false },
            || SettingValue::Duration(200_000),
            "How long materialized views, and INSERTs in the background, go on without making visible what they have; FLUSH \
             does not wait for it.",
        ),
        define(
            "implicit_flush",
            SettingKind::Switch,
            off,
            "Whether statements that change tables in memory end with a FLUSH, so that materialized views show the change.",
        ),
        define(
            "state_ttl",
            SettingKind::Duration { minus_one: false },
            no_time,
            "How long a key's state is kept in continuous queries after its last change where no watermark bounds it; 0 \
             keeps it forever. Groupings of rows that are not withdrawn and joins obey it; EXPLAIN tells. What comes for \
             state that was forgotten begins anew.",
        ),
        define(
            "execution.runtime_mode",
            SettingKind::Choice(&["automatic", "batch", "streaming"]),
            automatic,
            "Whether queries run as batch or as continuous queries; automatic runs those as continuous that read a table \
             without an end, streaming also those whose tables end, and batch refuses the former.",
        ),
        define(
            "copy.existing_files",
            SettingKind::Choice(&["error", "append", "overwrite"]),
            || SettingValue::Choice("error"),
            "What COPY into a folder does about the files that are there, unless its options overwrite or append say so.",
        ),
        define(
            "execution.exchange_mode",
            SettingKind::Choice(&["automatic", "pipelined", "blocking"]),
            automatic,
            "Whether exchanges hand rows on at once or when their producers have finished.",
        ),
    ]
}

fn planning() -> Vec<SettingDefinition> {
    vec![
        define(
            "trust_constraints",
            SettingKind::Switch,
            off,
            "Whether keys that are declared but not enforced may change plans, rather than estimates alone.",
        ),
        define(
            "verify_hints",
            SettingKind::Switch,
            off,
            "Whether the facts that hints state are checked at run time. It has no effect: hints state no facts.",
        ),
        define(
            "optimizer.statistics",
            SettingKind::Switch,
            on,
            "Whether plans are chosen by statistics and samples of the data.",
        ),
        define(
            "decimal_literals",
            SettingKind::Switch,
            on,
            "Whether 1.5 is a decimal, as in PostgreSQL, rather than a double.",
        ),
        define(
            "division_by_zero",
            SettingKind::Choice(&["error", "null"]),
            || SettingValue::Choice("error"),
            "What a division by zero is: an error, as in PostgreSQL, or NULL.",
        ),
        define(
            "materialized_view_errors",
            SettingKind::Choice(&["fail", "null"]),
            || SettingValue::Choice("fail"),
            "What becomes of a materialized view that divides by zero or casts what cannot be cast: it fails, or the value \
             is NULL.",
        ),
        define(
            "series_in_select",
            SettingKind::Choice(&["rows", "list"]),
            || SettingValue::Choice("rows"),
            "What generate_series is as an item of a select list: rows, as in PostgreSQL, or a list.",
        ),
        define(
            "time_zone",
            SettingKind::TimeZone,
            || SettingValue::Text("UTC".to_string()),
            "Time zone in which zoned timestamps are read, become text and are shown: a name such as Europe/Berlin, or \
             +02:00. The formats csv, tsv, json, jsonl and insert show UTC.",
        ),
    ]
}

fn strategy(name: &str) -> SettingDefinition {
    let what = name.replace('_', " ");
    let description = format!(
        "Whether the optimizer may use {what}; off forbids it wherever another way exists."
    );
    define(&format!("{STRATEGY_PREFIX}{name}"), SettingKind::Switch, on, &description)
}
