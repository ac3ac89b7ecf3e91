//! Windows over images: convolutions and pooling.
//!
//! Images `[n, c, h, w]` lie along their channels, as the result does; a weight `[oc, c / groups, kh,
//! kw]` along its output channels. A window is read stick by stick where it lies: no matrix of all
//! windows is made.
//!
//! | file | holds |
//! |---|---|
//! | `convolve` | convolutions: sizes, layouts, accounts |
//! | `implicit` | convolutions as products of windows and weights |
//! | `pool` | largest and mean of windows |

mod convolve;
mod implicit;
mod pool;
