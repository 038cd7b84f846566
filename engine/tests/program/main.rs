//! The program as its users call it. One target, because each target links the whole engine once more.

#[cfg(test)]
mod command;
#[cfg(test)]
mod command_line;
#[cfg(test)]
mod connectors;
#[cfg(test)]
mod files;
#[cfg(test)]
mod left_out;
#[cfg(test)]
mod memory_limit;
#[cfg(test)]
mod tour;
