//! How far a file has come that is still being written, noted behind its last byte.
//!
//! A process that is killed loses what it has not given to the system, and no more: what it wrote is there as long as the system
//! runs, on the disk or not. So a note counts in the boot in which it was made. It is part of the file until the file is complete, so
//! that both go and stay together.

use crate::stale;

/// Bytes of a note.
pub(crate) const NOTE_BYTES: usize = 144;

/// The note that `done` of a caller's steps are in the file; `key` says what the file is to hold.
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

/// What a note says, where it is of this key, of this boot, and whole.
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
            // Of another boot.
            let boot = stale::boot_identity().unwrap();
            let text = String::from_utf8(bytes).unwrap().replace(boot, "0123456789abcdef");
            assert_eq!(decode_note("plan", text.as_bytes()), None);
        }
    }
}
