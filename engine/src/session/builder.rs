//! Setting a session up.

use super::Session;
use crate::error::Result;
use crate::settings::Settings;

/// Settings of a session to be; wrong ones are reported by [`SessionBuilder::build`].
#[derive(Debug, Clone, Default)]
pub struct SessionBuilder {
    settings: Vec<(String, String)>,
}

impl SessionBuilder {
    /// Changes a setting, as `SET key = value` does.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Threads that run queries.
    pub fn threads(self, threads: usize) -> Self {
        self.set("threads", threads.to_string())
    }

    /// Bytes the process may use.
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.set("memory_limit", bytes.to_string())
    }

    /// The session. Nothing is started before its first query.
    pub fn build(self) -> Result<Session> {
        let mut settings = Settings::default();
        for (key, value) in &self.settings {
            settings.set(key, value)?;
        }
        Ok(Session::with_settings(settings))
    }
}
