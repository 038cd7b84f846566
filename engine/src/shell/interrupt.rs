//! Ctrl-C: cancels the running query; outside a query it ends a script, but never the interactive shell.
//!
//! A second Ctrl-C while a script's query is being cancelled ends the process at once. So does time: what does not
//! look at the cancellation, as a plan in the making, is not waited for in a script, unless rows that have come are being
//! put where they stay.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::Session;
use crate::error::{Error, Result};

/// The exit status after SIGINT.
pub const INTERRUPTED_STATUS: u8 = 130;

/// How long a script's statement may take to heed Ctrl-C.
const GRACE: Duration = Duration::from_millis(80);

/// Follows SIGINT on a thread of its own.
#[derive(Debug, Clone)]
pub struct Interrupts {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A statement is being run.
    running: AtomicBool,
    /// Signals since the statement began.
    received: AtomicUsize,
    /// Statements begun so far.
    statements: AtomicUsize,
    interactive: AtomicBool,
}

impl Interrupts {
    /// Takes over SIGINT for the process.
    pub fn follow(session: Session) -> Result<Self> {
        let failed = |e: std::io::Error| Error::io("cannot handle signals", &e);
        let state = Arc::<State>::default();
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let shared = state.clone();
        let follow = move || {
            for _ in signals.forever() {
                shared.interrupt(&session);
            }
        };
        thread::Builder::new().name("signals".to_string()).spawn(follow).map_err(failed)?;
        Ok(Interrupts { state })
    }

    /// From now on Ctrl-C never ends the process.
    pub fn set_interactive(&self) {
        self.state.interactive.store(true, Ordering::SeqCst);
    }

    /// A statement begins.
    pub fn begin(&self) {
        self.state.received.store(0, Ordering::SeqCst);
        self.state.statements.fetch_add(1, Ordering::SeqCst);
        self.state.running.store(true, Ordering::SeqCst);
    }

    /// The statement has ended; tells whether it was interrupted.
    pub fn end(&self) -> bool {
        self.state.running.store(false, Ordering::SeqCst);
        self.was_interrupted()
    }

    /// Whether Ctrl-C was pressed since the last statement began.
    pub fn was_interrupted(&self) -> bool {
        self.state.received.load(Ordering::SeqCst) > 0
    }
}

impl State {
    fn interrupt(self: &Arc<Self>, session: &Session) {
        let before = self.received.fetch_add(1, Ordering::SeqCst);
        let running = self.running.load(Ordering::SeqCst);
        let interactive = self.interactive.load(Ordering::SeqCst);
        if running {
            session.cancel_all();
        }
        if interactive {
            return;
        }
        if running && before == 0 {
            // Not here: this thread has to hear of a second signal.
            let (state, session) = (self.clone(), session.clone());
            let statement = self.statements.load(Ordering::SeqCst);
            let wait = move || state.wait_for(statement, &session);
            if thread::Builder::new().name("interrupt".to_string()).spawn(wait).is_ok() {
                return;
            }
        }
        process::exit(i32::from(INTERRUPTED_STATUS));
    }

    /// Ends the process if a statement does not heed Ctrl-C in time.
    fn wait_for(&self, statement: usize, session: &Session) {
        let runs = || {
            self.statements.load(Ordering::SeqCst) == statement
                && self.running.load(Ordering::SeqCst)
        };
        thread::sleep(GRACE);
        while runs() && session.is_settling() {
            thread::sleep(GRACE);
        }
        if runs() {
            process::exit(i32::from(INTERRUPTED_STATUS));
        }
    }
}
