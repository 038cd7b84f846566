//! The result of blocking work, waited for by a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::channel::oneshot;

use super::Environment;
use crate::error::{Error, Result};

/// Blocking work under way. Dropping it forgets the result; the work itself ends when it can.
#[derive(Debug)]
pub struct IoTask<T> {
    receiver: oneshot::Receiver<Result<T>>,
}

impl<T: Send + 'static> IoTask<T> {
    /// Starts `work` on the environment's I/O threads.
    pub fn spawn(
        env: &Arc<dyn Environment>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = oneshot::channel();
        env.spawn_io(Box::new(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::Internal("a panic while reading".into())));
            // Nobody may be waiting any more; then the result is not wanted.
            let _ = sender.send(result);
        }));
        IoTask { receiver }
    }

    /// The result once it is there; otherwise `waker` will be woken.
    pub fn poll(&mut self, waker: &Waker) -> Option<Result<T>> {
        match Pin::new(&mut self.receiver).poll(&mut Context::from_waker(waker)) {
            Poll::Pending => None,
            Poll::Ready(Ok(result)) => Some(result),
            Poll::Ready(Err(_)) => Some(Err(Error::Internal("an I/O thread vanished".into()))),
        }
    }
}
