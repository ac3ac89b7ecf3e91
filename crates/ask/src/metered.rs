//! Reads and writes JSON so that the time and memory it takes count against the limits of the request.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, Read, Write};

/// The longest line that is read without counting its memory. A tree of JSON takes at most about 50 times the memory of
/// its text, so such a line takes about 50 MiB, which is below every sensible limit.
const MAX_UNMETERED_BYTES: usize = 1 << 20;
/// Bytes of a long line that are read between two checks of the limits.
const PIECE_BYTES: usize = 1 << 14;

/// Reads JSON. A long text is read piece by piece, with a check of the limits before each piece.
pub(crate) fn read_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    if text.len() <= MAX_UNMETERED_BYTES {
        serde_json::from_str(text)
    } else {
        serde_json::from_reader(PieceReader(text.as_bytes()))
    }
}

struct PieceReader<'a>(&'a [u8]);

impl Read for PieceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (piece, rest) = self.0.split_at(self.0.len().min(into.len()).min(PIECE_BYTES));
        into[..piece.len()].copy_from_slice(piece);
        // The parser turns this piece into a part of the tree before it reads the next one, so the memory is reserved
        // now: fifty times the text, as above. The worst case is a list of one-digit numbers, each of which becomes a
        // value of the tree.
        zellige_guard::reserve_memory(50 * piece.len());
        self.0 = rest;
        Ok(piece.len())
    }
}

/// The text of an answer; writing to it counts steps and memory.
#[derive(Default)]
pub(crate) struct MeteredAnswer(Vec<u8>);

impl MeteredAnswer {
    pub(crate) fn write_text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn write_json(&mut self, value: &Value) {
        serde_json::to_writer(self, value).expect("writing a JSON value to memory cannot fail");
    }

    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0).expect("JSON is UTF-8")
    }
}

impl Write for &mut MeteredAnswer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Writing some dozens of bytes takes about as long as a step.
        zellige_guard::count_many_steps(bytes.len() / 64);
        let full = self.0.capacity() - self.0.len() < bytes.len();
        // A full vector allocates at least as much again. The limits are not checked for short answers; a long answer
        // is checked whenever it grows.
        if full && self.0.len() > MAX_UNMETERED_BYTES {
            zellige_guard::reserve_memory(self.0.len());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
