//! Reads the bytes of a model that the importer needs: everything but the elements of large
//! weights.
//!
//! Every byte of the result has the position that it has in the file, with zeros for the elements
//! that were left out. Memory that is never written to is not allocated by the system, so a model
//! takes the memory of its structure alone. The elements left out are never read: only smaller
//! tensors become literals.

use crate::error::Result;
use crate::literal;
use zellige_files::ByteFile;

/// Elements of more bytes than this stay in the file.
const MIN_SKIPPED_BYTES: u64 = 1 << 16;
const _: () =
    assert!(MIN_SKIPPED_BYTES >= 8 * literal::MAX_LITERAL_ELEMENTS as u64, "literals are read");

/// The number of bytes that are read at once.
// Fields are a few bytes each, so reading them one by one would be a system call for each.
const CHUNK_BYTES: u64 = 1 << 16;

/// The messages that contain tensors; `enter_field` gives the fields that lead to them.
#[derive(Clone, Copy)]
enum MessageKind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
}

impl MessageKind {
    fn enter_field(self, number: u64) -> Option<MessageKind> {
        match (self, number) {
            // The way to every tensor with elements: initializers of the graph (5), and attributes
            // (5) of its nodes (1). Graphs inside of attributes are read whole, because their
            // constants are small.
            (MessageKind::Model, 7) => Some(MessageKind::Graph),
            (MessageKind::Graph, 1) => Some(MessageKind::Node),
            (MessageKind::Graph, 5) | (MessageKind::Attribute, 5) => Some(MessageKind::Tensor),
            (MessageKind::Node, 5) => Some(MessageKind::Attribute),
            _ => None,
        }
    }
}

/// Reads a file without the elements of large tensors.
///
/// # Errors
/// What cannot be read or held in memory. A file that is not a model is read whole, because the
/// decoder reports best what is wrong with it.
pub(crate) fn read_skeleton(file: &ByteFile) -> Result<Vec<u8>> {
    // Pages of fresh memory that are never written to are not backed by physical memory, so a
    // skeleton of a file of gigabytes takes only what was read.
    let mut walk = SkeletonReader { file, bytes: file.zeroed_memory()?, reached: 0 };
    let end = file.byte_len();
    if walk.read_message(MessageKind::Model, 0, end)?.is_none() {
        walk.read_up_to(end)?;
    }
    // A file that was replaced while it was read would give a structure from one version and
    // weights from another.
    file.check_unchanged()?;
    Ok(walk.bytes)
}

struct SkeletonReader<'a> {
    file: &'a ByteFile,
    bytes: Vec<u8>,
    /// All bytes before this one have been read or left out.
    reached: u64,
}

impl SkeletonReader<'_> {
    /// Reads the bytes before `end` that have not been reached yet.
    fn read_up_to(&mut self, end: u64) -> Result<()> {
        if end > self.reached {
            // Reading ahead is safe: bytes that were read too early are the same bytes.
            let to = end.max(self.reached + CHUNK_BYTES).min(self.file.byte_len());
            let range = byte_index(self.reached)..byte_index(to);
            self.file.read_at(&mut self.bytes[range], self.reached)?;
            self.reached = to;
        }
        Ok(())
    }

    /// Reads a message; `None` if the bytes are not one.
    fn read_message(&mut self, kind: MessageKind, mut at: u64, end: u64) -> Result<Option<()>> {
        while at < end {
            let Some((key, next)) = self.read_varint(at, end)? else { return Ok(None) };
            at = next;
            match key & 7 {
                0 => match self.read_varint(at, end)? {
                    Some((_, next)) => at = next,
                    None => return Ok(None),
                },
                1 => at += 8,
                5 => at += 4,
                2 => {
                    let Some((length, start)) = self.read_varint(at, end)? else { return Ok(None) };
                    let Some(stop) = start.checked_add(length).filter(|stop| *stop <= end) else {
                        return Ok(None);
                    };
                    match (kind.enter_field(key >> 3), kind, key >> 3) {
                        (Some(inner), ..) => {
                            if self.read_message(inner, start, stop)?.is_none() {
                                return Ok(None);
                            }
                        }
                        // Field 9 is `raw_data`. Elements in typed fields are stored one by one and
                        // have to be decoded anyway.
                        (None, MessageKind::Tensor, 9) if length > MIN_SKIPPED_BYTES => {
                            self.reached = self.reached.max(stop);
                        }
                        _ => self.read_up_to(stop)?,
                    }
                    at = stop;
                }
                _ => return Ok(None),
            }
        }
        self.read_up_to(at.min(end))?;
        Ok((at == end).then_some(()))
    }

    /// Reads a varint and returns it with the position after it.
    fn read_varint(&mut self, at: u64, end: u64) -> Result<Option<(u64, u64)>> {
        // A varint of 64 bits takes at most ten bytes.
        self.read_up_to(end.min(at + 10))?;
        let mut value = 0;
        for (i, byte) in self.bytes[byte_index(at)..byte_index(end)].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(Some((value, at + i as u64 + 1)));
            }
        }
        Ok(None)
    }
}

/// The index of a byte of a file that fits in memory.
fn byte_index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
