//! Stick layouts: how the Spyre device holds a tensor, 128 bytes at a time, and the descriptors of
//! transfers to and from it.
//!
//! A [`StickLayout`] is a notation for a [`zellige_layout::Layout`]: [`StickLayout::lower_to_layout`] turns
//! it into one, and every question about positions and padding is answered by that layout. A
//! [`PlannedTransfer`] is a plan of `zellige-movement` between a host tensor and such a layout, written as
//! the device's tools read it.
//!
//! | file | holds |
//! |---|---|
//! | `stick_layout` | the fields, and what follows from them |
//! | `format` | element formats, and which of them stores a PyTorch dtype |
//! | `build` | the constructors |
//! | `bind` | the host of a layout, and its strides |
//! | `dim_map` | the legacy notation, both ways |
//! | `lower` | the layout in the algebra |
//! | `padding` | which device positions hold elements |
//! | `arrangement` | orders of lanes left behind by dtype conversion |
//! | `change` | another stick dimension, another format |
//! | `access` | loops over a view, as device coordinates |
//! | `request` | a requested layout, before its tensor is known |
//! | `view` | the layout of a view |
//! | `transfer` | transfer descriptors (DCI) |
//! | `dimension_nests` | their loops, one for every device dimension |
//!
//! # What it may not do
//! Hold a second mapping, or plan a move itself. There is no `unsafe` here.

#![forbid(unsafe_code)]

mod access;
mod arrangement;
mod bind;
mod build;
mod change;
mod dim_map;
mod dimension_nests;
mod error;
mod format;
mod lower;
mod padding;
mod request;
mod stick_layout;
mod transfer;
mod view;

pub use access::{AccessExpr, AccessTerm, DeviceAccess, ViewLoop, box_access};
pub use arrangement::LaneArrangement;
pub use error::{Result, StickError};
pub use format::{DataFormat, STICK_BYTES};
pub use padding::PaddingMap;
pub use request::LayoutRequest;
pub use stick_layout::StickLayout;
pub use transfer::{Dcsi, NamedNest, PlannedTransfer, TransferDescriptor, TransferDirection};
