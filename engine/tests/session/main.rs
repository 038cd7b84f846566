//! Sessions as programs use them. One target, because each target links the whole engine once more.

#[cfg(test)]
mod api;
#[cfg(test)]
mod background_jobs;
#[cfg(test)]
mod buffer_timeout;
#[cfg(test)]
mod connectors;
#[cfg(test)]
mod corpora;
#[cfg(test)]
mod event_time_windows;
#[cfg(test)]
mod nexmark;
#[cfg(test)]
mod own_windows;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod row_windows;
#[cfg(test)]
mod shown;
#[cfg(test)]
mod single_file;
#[cfg(test)]
mod sinks;
#[cfg(test)]
mod sliced_windows;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod streaming;
#[cfg(test)]
mod views;
#[cfg(test)]
mod views_in_time;
#[cfg(test)]
mod virtual_time;
