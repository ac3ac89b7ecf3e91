//! Stick layouts against the recorded answers of the device's software and against their own definitions.
//!
//! | file | holds |
//! |---|---|
//! | `common` | recorded cases, and the laws of a lowering by enumeration |
//! | `recorded` | layouts, transfers, formats and dtypes as the device's software recorded them |
//! | `construct` | constructors, their refusals, gaps, sticks of several dimensions |
//! | `hosts` | the strides of the tensor behind a layout, boxes, broadcasts, what is not covered |
//! | `changes` | restickified layouts, other formats, lane arrangements |
//! | `views` | dimension maps, device coordinates of accesses, layouts of views |
//! | `random` | random layouts and random numbers |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
mod common;
mod construct;
mod hosts;
mod random;
mod recorded;
mod views;
