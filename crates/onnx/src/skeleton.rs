//! The bytes of a model that the importer looks at: all but the elements of large weights.
//!
//! The result has every byte at its place in the file, and zeros where elements were left out; as memory
//! that is never written to costs nothing, a model takes the memory of its structure alone. What is left out
//! is never looked at: only tensors that are smaller become literals.

use crate::error::Result;
use crate::literal;
use zellige_files::ByteFile;

/// Elements of so many bytes stay in the file.
const LARGE: u64 = 1 << 16;
const _: () = assert!(LARGE >= 8 * literal::MOST as u64, "literals are read");

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 16;

/// The messages on the way to elements, each with the fields that lead on.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
}

impl Kind {
    fn field(self, number: u64) -> Option<Kind> {
        match (self, number) {
            (Kind::Model, 7) => Some(Kind::Graph),
            (Kind::Graph, 1) => Some(Kind::Node),
            (Kind::Graph, 5) | (Kind::Attribute, 5) => Some(Kind::Tensor),
            (Kind::Node, 5) => Some(Kind::Attribute),
            _ => None,
        }
    }
}

/// The bytes of a file without the elements of large tensors.
///
/// # Errors
/// What cannot be read or held in memory. A file of another form is read whole: the decoder says what is
/// wrong with it.
pub(crate) fn read(file: &ByteFile) -> Result<Vec<u8>> {
    let mut walk = Walk { file, bytes: file.zeroed_memory()?, reached: 0 };
    let end = file.byte_len();
    if walk.message(Kind::Model, 0, end)?.is_none() {
        walk.need(end)?;
    }
    file.check_unchanged()?;
    Ok(walk.bytes)
}

struct Walk<'a> {
    file: &'a ByteFile,
    bytes: Vec<u8>,
    /// What lies in front was read, or left out.
    reached: u64,
}

impl Walk<'_> {
    /// Reads what lies in front of `end`, if it was not reached before.
    fn need(&mut self, end: u64) -> Result<()> {
        if end > self.reached {
            let to = end.max(self.reached + CHUNK).min(self.file.byte_len());
            let range = index(self.reached)..index(to);
            self.file.read_at(&mut self.bytes[range], self.reached)?;
            self.reached = to;
        }
        Ok(())
    }

    /// Reads a message; none where it has not the form of one.
    fn message(&mut self, kind: Kind, mut at: u64, end: u64) -> Result<Option<()>> {
        while at < end {
            let Some((key, next)) = self.varint(at, end)? else { return Ok(None) };
            at = next;
            match key & 7 {
                0 => match self.varint(at, end)? {
                    Some((_, next)) => at = next,
                    None => return Ok(None),
                },
                1 => at += 8,
                5 => at += 4,
                2 => {
                    let Some((length, start)) = self.varint(at, end)? else { return Ok(None) };
                    let Some(stop) = start.checked_add(length).filter(|stop| *stop <= end) else {
                        return Ok(None);
                    };
                    match (kind.field(key >> 3), kind, key >> 3) {
                        (Some(inner), ..) => {
                            if self.message(inner, start, stop)?.is_none() {
                                return Ok(None);
                            }
                        }
                        (None, Kind::Tensor, 9) if length > LARGE => {
                            self.reached = self.reached.max(stop);
                        }
                        _ => self.need(stop)?,
                    }
                    at = stop;
                }
                _ => return Ok(None),
            }
        }
        self.need(at.min(end))?;
        Ok((at == end).then_some(()))
    }

    /// A number and where it ends.
    fn varint(&mut self, at: u64, end: u64) -> Result<Option<(u64, u64)>> {
        self.need(end.min(at + 10))?;
        let mut value = 0;
        for (i, byte) in self.bytes[index(at)..index(end)].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(Some((value, at + i as u64 + 1)));
            }
        }
        Ok(None)
    }
}

/// A byte of a file that is as long as a vector.
fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
