//! Worker threads, one a core, and the tasks they run.
//!
//! A task is queued when it is woken, run by whichever thread is free, and never by two at a time. A wake
//! during a run queues it again. A panic inside a task ends that task with an error, not the thread.
//!
//! A thread that wakes a task while it runs another one wakes no sleeping thread for it at once: if its own task waits
//! next, as one does that sent what little it had, it takes the woken task itself, which costs no switch. If its own task
//! goes on, the thread is woken after the step ([`begin_deferred`]). Invariant: a queued task is never left while a thread
//! sleeps, for longer than the step that another thread is in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::panics::contained;
use super::{Progress, Task, Waiting};
use crate::error::{Error, Result};
use crate::graph::VertexId;

/// What is told when a task has ended, well or not. Called on a worker thread.
pub type OnEnd = Box<dyn FnOnce(VertexId, usize, Result<()>) + Send>;

/// A set of worker threads.
pub struct Scheduler {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<VecDeque<Arc<Cell>>>,
    ready: Condvar,
    stop: AtomicBool,
}

impl Scheduler {
    /// Starts `threads` workers (at least one).
    pub fn new(threads: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ready: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let threads = (0..threads.max(1))
            .map(|i| {
                let shared = shared.clone();
                std::thread::Builder::new()
                    .name(format!("worker-{i}"))
                    .stack_size(WORKER_STACK_BYTES)
                    .spawn(move || shared.work())
                    .map_err(|e| Error::io("starting a worker thread", &e))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Scheduler { shared, threads })
    }

    /// Starts a task; `on_end` is called once.
    pub fn spawn(&self, task: Task, on_end: OnEnd) -> TaskRef {
        let place = task.place();
        let cell = Arc::new(Cell {
            place,
            task: Mutex::new(Some((task, on_end))),
            state: AtomicU8::new(IDLE),
            waiting: Mutex::new(None),
            shared: self.shared.clone(),
        });
        cell.clone().wake();
        TaskRef { cell }
    }
}

/// Deep expressions recurse; a worker has room for them.
const WORKER_STACK_BYTES: usize = 16 << 20;

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        {
            // Holding the lock means that no worker is between its look at `stop` and its wait.
            let _queue = self.shared.queue.lock();
            self.shared.ready.notify_all();
        }
        for thread in self.threads.drain(..) {
            if thread.thread().id() != std::thread::current().id() {
                // A worker catches the panics of its tasks, so there is nothing to learn from the join.
                let _ = thread.join();
            }
        }
    }
}

thread_local! {
    /// What this thread is to a scheduler, if it is a worker.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

struct Worker {
    of: Arc<Shared>,
    /// Whether it queued a task and woke nobody for it.
    deferred: bool,
}

/// Notes that a worker queued a task; false if this thread is no worker of that scheduler.
fn defer(shared: &Arc<Shared>) -> bool {
    WORKER.with_borrow_mut(|worker| match worker {
        Some(worker) if Arc::ptr_eq(&worker.of, shared) => {
            worker.deferred = true;
            true
        }
        Some(_) | None => false,
    })
}

/// Called by a task that goes on after a step: other threads may have the tasks that the step woke.
pub(super) fn begin_deferred() {
    WORKER.with_borrow_mut(|worker| {
        if let Some(worker) = worker
            && std::mem::take(&mut worker.deferred)
        {
            worker.of.ready.notify_one();
        }
    });
}

impl Shared {
    fn work(self: Arc<Self>) {
        WORKER.set(Some(Worker { of: self.clone(), deferred: false }));
        loop {
            WORKER.with_borrow_mut(|worker| worker.iter_mut().for_each(|w| w.deferred = false));
            let mut queue = self.queue.lock();
            let cell = loop {
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                match queue.pop_front() {
                    Some(cell) => break cell,
                    None => self.ready.wait(&mut queue),
                }
            };
            let more = !queue.is_empty();
            drop(queue);
            if more {
                self.ready.notify_one();
            }
            cell.run();
        }
    }
}

/// A started task, for waking and watching it.
#[derive(Clone)]
pub struct TaskRef {
    cell: Arc<Cell>,
}

impl TaskRef {
    /// Lets the task look again at what it waits for, and at cancellation.
    pub fn wake(&self) {
        self.cell.clone().wake();
    }

    /// Which subtask of which vertex.
    pub fn place(&self) -> (VertexId, usize) {
        self.cell.place
    }

    /// Whether the task has ended.
    pub fn has_ended(&self) -> bool {
        self.cell.state.load(Ordering::Acquire) == ENDED
    }

    /// What the task waits for at this moment, with its inputs; `None` if it runs, is queued or has ended.
    pub fn waiting(&self) -> Option<(Waiting, String)> {
        if self.cell.state.load(Ordering::Acquire) != IDLE {
            return None;
        }
        let inputs = self.cell.task.try_lock()?.as_ref().map(|(t, _)| t.describe_inputs())?;
        let waiting = self.cell.waiting.lock().clone()?;
        Some((waiting, inputs))
    }
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AND_WOKEN: u8 = 3;
const ENDED: u8 = 4;

struct Cell {
    place: (VertexId, usize),
    task: Mutex<Option<(Task, OnEnd)>>,
    state: AtomicU8,
    waiting: Mutex<Option<Waiting>>,
    shared: Arc<Shared>,
}

impl Wake for Cell {
    fn wake(self: Arc<Self>) {
        let next = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_AND_WOKEN),
            _ => None,
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(IDLE) {
            self.enqueue();
        }
    }
}

impl Cell {
    fn enqueue(self: Arc<Self>) {
        let shared = self.shared.clone();
        shared.queue.lock().push_back(self);
        if !defer(&shared) {
            shared.ready.notify_one();
        }
    }

    fn run(self: Arc<Self>) {
        self.state.store(RUNNING, Ordering::Release);
        let waker = Waker::from(self.clone());
        let mut slot = self.task.lock();
        let Some((task, _)) = slot.as_mut() else { return };
        let outcome = contained(|| task.run(&waker));
        match outcome {
            Ok(Progress::Yield) => {
                drop(slot);
                self.state.store(QUEUED, Ordering::Release);
                self.enqueue();
            }
            Ok(Progress::Waiting(waiting)) => {
                *self.waiting.lock() = Some(waiting);
                drop(slot);
                let idle =
                    self.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
                if idle.is_err() {
                    // It was woken while it ran.
                    self.state.store(QUEUED, Ordering::Release);
                    self.enqueue();
                }
            }
            Ok(Progress::Done) => self.end(slot.take(), Ok(())),
            Err(error) => self.end(slot.take(), Err(error)),
        }
    }

    fn end(&self, task: Option<(Task, OnEnd)>, result: Result<()>) {
        self.state.store(ENDED, Ordering::Release);
        if let Some((task, on_end)) = task {
            let (vertex, subtask) = self.place;
            // What the task held is let go before anyone hears of its end.
            let dropped = contained(|| {
                drop(task);
                Ok(())
            });
            let result = result.and(dropped);
            on_end(vertex, subtask, result);
        }
    }
}
