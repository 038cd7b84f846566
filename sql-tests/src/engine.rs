//! The engine as the tests see it: a text goes in, rows or an error message come out.
//!
//! Invariant: a panic inside the engine is an error like any other, with a message that says so, and a statement
//! that runs too long is cancelled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use thalweg::{CancellationToken, Session};

/// What a statement gave.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The columns; none for a statement without a result.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Rows that the statement wrote, if it is one that writes.
    pub rows_written: Option<u64>,
}

/// A fresh session of the engine.
#[derive(Debug)]
pub struct Engine {
    session: Session,
    watch: Arc<Watch>,
}

impl Engine {
    /// A session with these settings. A statement that runs longer than `timeout` is cancelled.
    ///
    /// # Errors
    /// The engine's message about a setting.
    pub fn new(settings: &[(String, String)], timeout: Duration) -> Result<Self, String> {
        let mut builder = Session::builder();
        for (key, value) in settings {
            builder = builder.set(key, value);
        }
        let session = builder.build().map_err(|error| error.to_string())?;
        Ok(Engine { session, watch: Watch::start(timeout) })
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// The engine's message.
    pub fn set(&self, key: &str, value: &str) -> Result<(), String> {
        self.session.set(key, value).map_err(|error| error.to_string())
    }

    /// The names of the switches of the optimizer's strategies.
    pub fn strategy_switches(&self) -> Vec<String> {
        let all = self.session.settings();
        all.into_iter()
            .map(|entry| entry.name.to_string())
            .filter(|name| name.starts_with("optimizer."))
            .collect()
    }

    /// Makes rows available as a table.
    ///
    /// # Errors
    /// The engine's message.
    pub fn register(&self, name: &str, batches: Vec<RecordBatch>) -> Result<(), String> {
        self.session.register_batches(name, batches).map_err(|error| error.to_string())
    }

    /// Runs all statements of a text; the answer is the last one's.
    ///
    /// # Errors
    /// The message of the first error, or of a panic.
    pub fn run(&self, sql: &str) -> Result<Answer, String> {
        let outcome =
            catch_unwind(AssertUnwindSafe(|| futures::executor::block_on(self.run_all(sql))));
        self.watch.clear();
        outcome.unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(panic.as_ref()))))
    }

    /// Runs a query for the changes of its result: a column `op` stands before the others.
    ///
    /// # Errors
    /// As [`Engine::run`] gives.
    pub fn changes(&self, sql: &str) -> Result<Answer, String> {
        self.session.show_changes(true);
        let answer = self.run(sql);
        self.session.show_changes(false);
        answer
    }

    /// The physical plan of a query as text, for reports.
    pub fn explain(&self, sql: &str) -> String {
        match catch_unwind(AssertUnwindSafe(|| futures::executor::block_on(self.session.sql(sql))))
        {
            Ok(Ok(frame)) => frame.explain(false),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("panic: {}", panic_text(panic.as_ref())),
        }
    }

    async fn run_all(&self, sql: &str) -> Result<Answer, String> {
        let mut script = self.session.execute(sql);
        let mut answer = None;
        while let Some(frame) = script.next_frame().await.map_err(|error| error.to_string())? {
            self.watch.guard(frame.cancellation_token());
            let (schema, rows_written) = (Arc::clone(frame.schema()), frame.rows_written());
            let batches = frame.collect().await.map_err(|error| error.to_string())?;
            answer = Some(Answer { schema, batches, rows_written });
        }
        answer.ok_or_else(|| "there is no statement".to_string())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.watch.end();
    }
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "of unknown cause".into())
}

/// Cancels the statement under way once its time is over.
#[derive(Debug)]
struct Watch {
    guarded: Mutex<Guarded>,
}

#[derive(Debug)]
enum Guarded {
    Nothing,
    Statement(Instant, CancellationToken),
    Ended,
}

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Watch {
    fn start(timeout: Duration) -> Arc<Self> {
        let watch = Arc::new(Watch { guarded: Mutex::new(Guarded::Nothing) });
        let watching = Arc::clone(&watch);
        std::thread::spawn(move || {
            loop {
                match &*watching.lock() {
                    Guarded::Ended => return,
                    Guarded::Statement(since, token) if since.elapsed() > timeout => token.cancel(),
                    Guarded::Statement(..) | Guarded::Nothing => {}
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        watch
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Guarded> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self, token: CancellationToken) {
        *self.lock() = Guarded::Statement(Instant::now(), token);
    }

    fn clear(&self) {
        *self.lock() = Guarded::Nothing;
    }

    fn end(&self) {
        *self.lock() = Guarded::Ended;
    }
}
