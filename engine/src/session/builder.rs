//! Setting a session up.

use std::sync::Arc;

use thalweg_runtime::env::{Environment, System};

use super::Session;
use crate::error::Result;
use crate::settings::Settings;

/// Settings of a session to be; wrong ones are reported by [`SessionBuilder::build`].
#[derive(Debug, Clone, Default)]
pub struct SessionBuilder {
    settings: Vec<(String, String)>,
    env: Option<Arc<dyn Environment>>,
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

    /// Clocks, blocking work and files of the session's queries; the operating system's by default. `proctime()`, rates of
    /// generators and timers go by its clocks, so that a test can drive time. Files are found and opened for planning by
    /// the operating system all the same.
    pub fn environment(mut self, env: Arc<dyn Environment>) -> Self {
        self.env = Some(env);
        self
    }

    /// The session. Nothing is started before its first query.
    pub fn build(self) -> Result<Session> {
        let mut settings = Settings::default();
        for (key, value) in &self.settings {
            settings.set(key, value)?;
        }
        let env = self.env.unwrap_or_else(|| System::new());
        Ok(Session::with_settings(settings, env))
    }
}
