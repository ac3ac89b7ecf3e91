//! The progress note of a file that is still being written, stored after its last byte.
//!
//! A killed process loses only what it has not written: the system keeps written bytes as long as
//! it runs, even if they are not on the disk yet. A note is therefore valid only in the boot in
//! which it was made. It is part of the file until the file is complete, so that both exist or
//! disappear together.

use crate::stale;

/// The length of a note in bytes.
pub(crate) const NOTE_BYTES: usize = 144;

/// Encodes the note that everything up to `done` is in the file; `key` identifies the contents of
/// the file.
pub(crate) fn encode_note(key: &str, done: u64) -> Vec<u8> {
    let key = blake3::hash(key.as_bytes()).to_hex();
    let boot = stale::boot_identity().unwrap_or("unknown");
    let mut text = format!("zellige partial {key} {boot:>16} {done:>20} ");
    // A process can be killed in the middle of writing the note; half a number would be a wrong
    // number.
    let sum = crc32fast::hash(text.as_bytes());
    text += &format!("{sum:08x}");
    let mut bytes = text.into_bytes();
    bytes.resize(NOTE_BYTES, b'\n');
    bytes
}

/// Decodes a note, if it has this key, comes from this boot, and is intact.
pub(crate) fn decode_note(key: &str, bytes: &[u8]) -> Option<u64> {
    stale::boot_identity()?;
    let text = std::str::from_utf8(bytes).ok()?;
    let done = text.split_whitespace().nth(4)?.parse().ok()?;
    // Writing the expected note and comparing checks key, boot, sum and form at once.
    (encode_note(key, done) == bytes).then_some(done)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_or_not_believed() {
        for done in [0, 1, 99_999, u64::MAX] {
            let bytes = encode_note("plan", done);
            assert_eq!(bytes.len(), NOTE_BYTES);
            assert_eq!(decode_note("plan", &bytes), Some(done));
            assert_eq!(decode_note("other", &bytes), None);
            for k in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[k] ^= 1;
                assert_eq!(decode_note("plan", &wrong), None, "byte {k}");
            }
            // A note of another boot.
            let boot = stale::boot_identity().unwrap();
            let text = String::from_utf8(bytes).unwrap().replace(boot, "0123456789abcdef");
            assert_eq!(decode_note("plan", text.as_bytes()), None);
        }
    }
}
