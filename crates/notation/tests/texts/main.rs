//! Texts of the tiled, blocked and sharded notations: what is refused and where, what the libraries print, and any text at all.

mod printed;
mod random;
mod refused;
