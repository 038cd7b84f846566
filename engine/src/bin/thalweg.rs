//! The program `thalweg`: the shell, with an allocator whose bytes count against the memory limit.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use thalweg_runtime::memory::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator::new(MiMalloc);

fn main() -> ExitCode {
    thalweg::shell::main(std::env::args_os())
}
