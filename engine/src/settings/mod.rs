//! Settings: the knobs of a session, typed and checked when they are set.
//!
//! Invariant: a [`Settings`] holds only values that their definitions take; an unknown name is an error with a
//! suggestion. Settings are cheap to clone: every query works on the values it started with.

mod definition;
mod machine;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_optimizer::{ExchangePolicy, StrategySwitches};
use thalweg_planner::suggest;

use crate::error::{Error, Report, Result};

pub use definition::{SettingDefinition, definitions};
pub use value::{SettingKind, SettingValue};

/// What [`Settings::list`] tells of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingEntry {
    /// Its name.
    pub name: &'static str,
    /// Its value as text that `SET` reads back.
    pub value: String,
    /// What it does.
    pub description: &'static str,
}

/// How queries are run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeMode {
    /// As a batch when every input is bounded.
    Automatic,
    /// As a batch.
    Batch,
    /// As a continuous query.
    Streaming,
}

/// Reads a buffer timeout in the form of its setting, in microseconds: 0 is at once and −1 never.
pub(crate) fn buffer_timeout_us(text: &str) -> Result<i64> {
    let definition = find("buffer_timeout")?;
    match definition.kind.parse(&definition.name, text)? {
        SettingValue::Duration(us) => Ok(us),
        other => Err(Error::internal(format!("a buffer timeout of {other}"))),
    }
}

/// The values that differ from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    changed: BTreeMap<&'static str, SettingValue>,
}

impl Settings {
    /// Sets a setting from text, as `SET key = value` does.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let definition = find(name)?;
        let value = definition.kind.parse(&definition.name, value)?;
        self.changed.insert(&definition.name, value);
        Ok(())
    }

    /// Gives a setting its default again.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        self.changed.remove(find(name)?.name.as_str());
        Ok(())
    }

    /// Gives all settings their defaults again.
    pub fn reset_all(&mut self) {
        self.changed.clear();
    }

    /// A setting's value.
    pub fn get(&self, name: &str) -> Result<SettingValue> {
        find(name).map(|definition| self.value(definition))
    }

    /// All settings, sorted by name.
    pub fn list(&self) -> Vec<SettingEntry> {
        let entry = |definition: &'static SettingDefinition| SettingEntry {
            name: &definition.name,
            value: self.value(definition).to_string(),
            description: &definition.description,
        };
        definitions().iter().map(entry).collect()
    }

    /// Threads that run queries.
    pub fn threads(&self) -> usize {
        usize::try_from(self.count("threads")).unwrap_or(1)
    }

    /// Rows that a batch has at most.
    pub fn batch_rows(&self) -> usize {
        usize::try_from(self.count("batch_size")).unwrap_or(1)
    }

    /// Bytes the process may use; `None` for no limit.
    pub fn memory_limit(&self) -> Option<u64> {
        self.bytes("memory_limit")
    }

    /// Bytes that spill files may take; `None` for no limit.
    pub fn max_spill_bytes(&self) -> Option<u64> {
        self.bytes("max_spill_size")
    }

    /// Where spill files go.
    pub fn spill_directory(&self) -> String {
        self.known("spill_directory").to_string()
    }

    /// How long views wait between commits; at least a millisecond.
    pub fn view_commit_interval(&self) -> Duration {
        let micros = u64::try_from(self.micros("view_commit_interval")).unwrap_or(0);
        Duration::from_micros(micros.max(1_000))
    }

    /// Microseconds after which an incomplete buffer is sent; 0 for at once, −1 for never.
    pub fn buffer_timeout_us(&self) -> i64 {
        self.micros("buffer_timeout")
    }

    /// Microseconds of latency that are aimed at; 0 for no aim.
    pub fn latency_target_us(&self) -> i64 {
        self.micros("latency_target")
    }

    /// Microseconds that a key's state is kept; 0 for forever.
    pub fn state_ttl_us(&self) -> i64 {
        self.micros("state_ttl")
    }

    /// How queries are run.
    pub fn runtime_mode(&self) -> RuntimeMode {
        match self.known("execution.runtime_mode") {
            SettingValue::Choice("batch") => RuntimeMode::Batch,
            SettingValue::Choice("streaming") => RuntimeMode::Streaming,
            _ => RuntimeMode::Automatic,
        }
    }

    /// Which exchanges block.
    pub fn exchange_policy(&self) -> ExchangePolicy {
        match self.known("execution.exchange_mode") {
            SettingValue::Choice("pipelined") => ExchangePolicy::Pipelined,
            SettingValue::Choice("blocking") => ExchangePolicy::Blocking,
            _ => ExchangePolicy::Automatic,
        }
    }

    /// What COPY does about files that are in its folder: whether it adds to them, and whether it replaces them.
    pub fn existing_files(&self) -> (bool, bool) {
        match self.known("copy.existing_files") {
            SettingValue::Choice("append") => (true, false),
            SettingValue::Choice("overwrite") => (false, true),
            _ => (false, false),
        }
    }

    /// Whether declared keys may change plans.
    pub fn trust_constraints(&self) -> bool {
        self.switch("trust_constraints")
    }

    /// Whether hints are checked at run time.
    pub fn verify_hints(&self) -> bool {
        self.switch("verify_hints")
    }

    /// Whether views show a change when the statement that made it has ended.
    pub fn implicit_flush(&self) -> bool {
        self.switch("implicit_flush")
    }

    /// Whether plans are chosen by statistics.
    pub fn use_statistics(&self) -> bool {
        self.switch("optimizer.statistics")
    }

    /// Whether a number with a point is a decimal.
    pub fn decimal_literals(&self) -> bool {
        self.switch("decimal_literals")
    }

    /// Whether a division by zero is NULL instead of an error.
    pub fn null_divisions(&self) -> bool {
        self.known("division_by_zero").to_string() == "null"
    }

    /// Whether what materialized views cannot divide or cast is NULL instead of their end.
    pub fn null_view_errors(&self) -> bool {
        self.known("materialized_view_errors").to_string() == "null"
    }

    /// Whether `generate_series` in a select list is rows rather than a list.
    pub fn series_rows(&self) -> bool {
        self.known("series_in_select").to_string() == "rows"
    }

    /// The session's time zone; `None` for UTC.
    pub fn time_zone(&self) -> Option<String> {
        let zone = self.known("time_zone").to_string();
        (!zone.eq_ignore_ascii_case("utc")).then_some(zone)
    }

    /// Which strategies the optimizer may choose.
    pub fn strategies(&self) -> StrategySwitches {
        let mut switches = StrategySwitches::default();
        for name in StrategySwitches::NAMES {
            if let Some(switch) = switches.switch_mut(name) {
                *switch = self.switch(&format!("{}{name}", definition::STRATEGY_PREFIX));
            }
        }
        switches
    }

    fn value(&self, definition: &SettingDefinition) -> SettingValue {
        self.changed
            .get(definition.name.as_str())
            .cloned()
            .unwrap_or_else(|| definition.default_value())
    }

    /// The value of a setting that this file names.
    fn known(&self, name: &str) -> SettingValue {
        self.get(name).expect("a setting of this name is defined")
    }

    fn count(&self, name: &str) -> u64 {
        match self.known(name) {
            SettingValue::Count(count) => count,
            other => unreachable!("{name} is {other:?}, not a count"),
        }
    }

    fn bytes(&self, name: &str) -> Option<u64> {
        match self.known(name) {
            SettingValue::Bytes(bytes) => bytes,
            other => unreachable!("{name} is {other:?}, not a size"),
        }
    }

    fn micros(&self, name: &str) -> i64 {
        match self.known(name) {
            SettingValue::Duration(micros) => micros,
            other => unreachable!("{name} is {other:?}, not a time"),
        }
    }

    fn switch(&self, name: &str) -> bool {
        match self.known(name) {
            SettingValue::Switch(on) => on,
            other => unreachable!("{name} is {other:?}, not a switch"),
        }
    }
}

fn find(name: &str) -> Result<&'static SettingDefinition> {
    let all = definitions();
    // PostgreSQL's spelling.
    let name = if name.eq_ignore_ascii_case("timezone") { "time_zone" } else { name };
    all.iter().find(|d| d.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let hint = suggest::did_you_mean(name, all.iter().map(|d| d.name.as_str()))
            .or_else(|| without_prefix(name))
            .or_else(|| Some("SHOW ALL lists all settings.".to_string()));
        Error::setting(Report::new(format!("unknown setting \"{name}\"")).with_hint(hint))
    })
}

/// A suggestion for who leaves away, or misspells, what stands before the last point of a setting's name.
fn without_prefix(name: &str) -> Option<String> {
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let wanted = name.rsplit('.').next().unwrap_or(name);
    let names = || definitions().iter().map(|definition| definition.name.as_str());
    let nearest = suggest::nearest(wanted, names().map(last)).into_iter().next()?;
    let full = names().find(|name| last(name) == nearest)?;
    Some(format!("did you mean \"{full}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_read_back_by_its_own_kind() {
        for definition in definitions() {
            let default = definition.default_value();
            let read = definition.kind.parse(&definition.name, &default.to_string()).unwrap();
            assert_eq!(read, default, "{}", definition.name);
            assert!(definition.description.ends_with('.'), "{} is documented", definition.name);
        }
    }

    #[test]
    fn typed_access_knows_every_setting() {
        let settings = Settings::default();
        assert!(settings.threads() >= 1);
        assert_eq!(settings.batch_rows(), 8192);
        assert_eq!(settings.buffer_timeout_us(), 100_000);
        assert_eq!((settings.latency_target_us(), settings.state_ttl_us()), (0, 0));
        assert_eq!(settings.max_spill_bytes(), None);
        assert!(!settings.spill_directory().is_empty());
        assert_eq!(settings.runtime_mode(), RuntimeMode::Automatic);
        assert_eq!(settings.exchange_policy(), ExchangePolicy::Automatic);
        assert!(
            !settings.trust_constraints() && !settings.verify_hints() && settings.use_statistics()
        );
        assert_eq!(settings.time_zone(), None);
        assert_eq!(settings.strategies(), StrategySwitches::default());
        assert!(settings.memory_limit().is_some());
    }

    #[test]
    fn set_and_reset() {
        let mut settings = Settings::default();
        settings.set("optimizer.hash_join", "off").unwrap();
        settings.set("THREADS", "3").unwrap();
        settings.set("memory_limit", "256MB").unwrap();
        assert!(!settings.strategies().hash_join);
        assert_eq!(settings.threads(), 3);
        assert_eq!(settings.memory_limit(), Some(256 << 20));
        settings.reset("optimizer.hash_join").unwrap();
        assert!(settings.strategies().hash_join);
        settings.reset_all();
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let error = Settings::default().set("treads", "1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown setting \"treads\"\nHINT: did you mean \"threads\"?"
        );
        for (wrong, right) in [
            ("hash_join", "optimizer.hash_join"),
            ("optimiser.hash_joim", "optimizer.hash_join"),
            ("runtime_mode", "execution.runtime_mode"),
        ] {
            let error = Settings::default().set(wrong, "1").unwrap_err();
            assert_eq!(error.hint(), Some(format!("did you mean \"{right}\"?").as_str()));
        }
        assert!(
            Settings::default()
                .get("no_such_thing_at_all")
                .unwrap_err()
                .hint()
                .unwrap()
                .contains("SHOW ALL")
        );
    }

    #[test]
    fn a_refused_value_changes_nothing() {
        let mut settings = Settings::default();
        assert!(settings.set("buffer_timeout", "-2").is_err());
        assert!(settings.set("batch_size", "0").is_err());
        assert_eq!(settings, Settings::default());
        settings.set("buffer_timeout", "-1").unwrap();
        assert_eq!(settings.buffer_timeout_us(), -1);
    }
}
