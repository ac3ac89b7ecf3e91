//! The program `zellige`: what it does is in the library of this crate, which the Python package runs too.

#![forbid(unsafe_code)]

/// Counts memory in use, for the limits.
#[global_allocator]
static ALLOCATOR: zellige_guard::CountingAllocator = zellige_guard::CountingAllocator;

fn main() -> std::process::ExitCode {
    zellige_cli::run_program(std::env::args_os()).into()
}
