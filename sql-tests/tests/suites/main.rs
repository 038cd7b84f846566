//! What SQL answers. One target, because each target links the whole engine once more.

#[cfg(test)]
mod equivalence;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod slt;
