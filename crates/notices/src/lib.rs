//! The crates of other authors that the program, the wheel and the page contain, and their
//! licences.
//!
//! `THIRD-PARTY-NOTICES` is made from `Cargo.lock` and the crates' own licence files, is committed,
//! printed by `zellige --licenses` and packed into the wheel; a test builds it again and compares.
//! `deny.toml` says which licences and sources are accepted. `cargo deny` reads it in `./test
//! --long`; [`deny`] checks the same lists in every test run without having to build `cargo deny`
//! first.

#![forbid(unsafe_code)]

pub mod deny;
pub mod graph;
pub mod license;
pub mod notice;
