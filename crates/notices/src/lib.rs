//! Which crates of others the program, the wheel and the page are made of, and on which terms.
//!
//! `THIRD-PARTY-NOTICES` is made from `Cargo.lock` and the crates' own licence files, is committed, and
//! is what `zellige --licenses` prints and the wheel carries; a test makes it again and compares.
//! `deny.toml` says which licences and sources are accepted. `cargo deny` reads it in `./test --long`;
//! [`deny`] holds every build to the same lists without having to build `cargo deny` first.

#![forbid(unsafe_code)]

pub mod deny;
pub mod graph;
pub mod license;
pub mod notice;
