//! Shared things of a job by id.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};

type Shared = Arc<dyn Any + Send + Sync>;

/// Makes each shared thing once, for whoever asks first.
#[derive(Default)]
pub struct SharedRegistry {
    things: Mutex<HashMap<u32, Shared>>,
}

impl SharedRegistry {
    /// The thing of an id; made by `make` if nobody has asked for it yet. One id has one type.
    pub fn get_or_create<T: Any + Send + Sync>(
        &self,
        id: u32,
        make: impl FnOnce() -> T,
    ) -> Result<Arc<T>> {
        let mut things = self.things.lock();
        let thing = things.entry(id).or_insert_with(|| Arc::new(make())).clone();
        thing
            .downcast::<T>()
            .map_err(|_| Error::Internal(format!("shared thing {id} has another type")))
    }

    /// Lets go of everything, at the end of the job.
    pub fn clear(&self) {
        self.things.lock().clear();
    }
}
