//! Windows over images: convolutions and pooling.
//!
//! Images `[n, c, h, w]` and the result are stickified along their channels; a weight `[oc, c / groups, kh,
//! kw]` along its output channels. A window is read stick by stick from the image: no matrix of all
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
