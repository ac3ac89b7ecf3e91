//! Reads the wire format of protocol buffers, checking every length.
//!
//! A message is a sequence of fields: a key (number and wire type), then a value. Nothing is
//! copied: values borrow from the file, and every error has the byte where it occurred.

use crate::error::{OnnxError, Result};
use std::ops::Range;

/// A message, read field by field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireMessage<'a> {
    /// The whole file.
    file: &'a [u8],
    at: usize,
    end: usize,
}

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireField<'a> {
    pub(crate) number: u32,
    /// The byte of the file at which its key begins.
    pub(crate) at: usize,
    value: WireValue<'a>,
}

#[derive(Debug, Clone, Copy)]
enum WireValue<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(WireMessage<'a>),
}

impl WireValue<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            WireValue::Varint(_) => "a varint",
            WireValue::Fixed64(_) => "8 fixed bytes",
            WireValue::Fixed32(_) => "4 fixed bytes",
            WireValue::Bytes(_) => "bytes with a length",
        }
    }
}

impl<'a> WireMessage<'a> {
    /// Reads a whole file as a message.
    pub(crate) fn whole_file(file: &'a [u8]) -> WireMessage<'a> {
        WireMessage { file, at: 0, end: file.len() }
    }

    /// The range of the file that is still to be read.
    pub(crate) fn remaining_range(&self) -> Range<usize> {
        self.at..self.end
    }

    /// The bytes of the file that are still to be read.
    pub(crate) fn remaining_bytes(&self) -> &'a [u8] {
        &self.file[self.at..self.end]
    }

    /// Reads the next field; `None` at the end.
    ///
    /// # Errors
    /// Keys and values that do not end inside the message, varints of more than 64 bits, field
    /// number 0, wire types that ONNX does not use.
    pub(crate) fn next_field(&mut self) -> Result<Option<WireField<'a>>> {
        if self.at == self.end {
            return Ok(None);
        }
        let at = self.at;
        let key = self.read_varint("the key of a field")?;
        // Protocol buffers reserve 29 bits for field numbers and never use 0, so anything else is
        // no message: mostly a length in front of it was wrong.
        let number = u32::try_from(key >> 3).ok().filter(|n| (1..1 << 29).contains(n));
        let Some(number) = number else {
            let message = format!("field number {}; accepted: 1 to 2^29 - 1", key >> 3);
            return Err(OnnxError::malformed_file(at, message));
        };
        let value = match key & 7 {
            0 => WireValue::Varint(self.read_varint("a number")?),
            1 => WireValue::Fixed64(self.read_fixed()?),
            5 => WireValue::Fixed32(self.read_fixed()?),
            2 => {
                let from = self.at;
                let len = self.read_varint("a length")?;
                let have = self.end - self.at;
                // The length is compared with the bytes of the enclosing message and not of the
                // file, so that a field cannot reach into the next message.
                let Some(len) = usize::try_from(len).ok().filter(|len| *len <= have) else {
                    let message = format!(
                        "field {number} announces that {len} bytes follow, and {have} are left"
                    );
                    return Err(OnnxError::malformed_file(from, message));
                };
                self.at += len;
                WireValue::Bytes(WireMessage { file: self.file, at: self.at - len, end: self.at })
            }
            other => {
                // Types 3 and 4 are groups, which protocol buffers gave up before ONNX existed.
                let message = format!("field {number} has wire type {other}; known: 0, 1, 2 and 5");
                return Err(OnnxError::malformed_file(at, message));
            }
        };
        Ok(Some(WireField { number, at, value }))
    }

    fn read_fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let have = self.end - self.at;
        let Some(bytes) = self.remaining_bytes().first_chunk::<N>() else {
            let message = format!("a number of {N} bytes, and {have} are left");
            return Err(OnnxError::malformed_file(self.at, message));
        };
        self.at += N;
        Ok(*bytes)
    }

    /// Reads a varint: a number of at most 64 bits, 7 bits in each byte.
    pub(crate) fn read_varint(&mut self, what: &str) -> Result<u64> {
        let from = self.at;
        let mut value = 0u64;
        for (i, byte) in self.remaining_bytes().iter().take(10).enumerate() {
            // Nine bytes hold 63 bits, so the tenth may only add the last one.
            if i == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        let cut = self.end - from < 10;
        let why = if cut { "ends in its middle" } else { "has more than 64 bits" };
        Err(OnnxError::malformed_file(from, format!("{what} {why}")))
    }
}

impl<'a> WireField<'a> {
    fn wrong_type(&self, what: &str, expected: &str) -> OnnxError {
        let message =
            format!("`{what}` is {expected}, and the file has {}", self.value.type_name());
        OnnxError::malformed_file(self.at, message)
    }

    /// The value as a message or as bytes.
    pub(crate) fn as_message(&self, what: &str) -> Result<WireMessage<'a>> {
        match self.value {
            WireValue::Bytes(m) => Ok(m),
            _ => Err(self.wrong_type(what, "bytes with a length")),
        }
    }

    /// The value as text.
    pub(crate) fn as_text(&self, what: &str) -> Result<&'a str> {
        let m = self.as_message(what)?;
        std::str::from_utf8(m.remaining_bytes()).map_err(|e| {
            OnnxError::malformed_file(m.at + e.valid_up_to(), format!("`{what}`: no UTF-8"))
        })
    }

    /// The value as a signed number.
    pub(crate) fn as_int(&self, what: &str) -> Result<i64> {
        match self.value {
            WireValue::Varint(v) => Ok(v.cast_signed()),
            _ => Err(self.wrong_type(what, "a varint")),
        }
    }

    /// The value as a float32.
    pub(crate) fn as_float(&self, what: &str) -> Result<f32> {
        match self.value {
            WireValue::Fixed32(b) => Ok(f32::from_le_bytes(b)),
            _ => Err(self.wrong_type(what, "4 fixed bytes")),
        }
    }

    /// Appends signed numbers, from one value or a packed list.
    pub(crate) fn append_ints(&self, what: &str, into: &mut Vec<i64>) -> Result<()> {
        match self.value {
            // A repeated number may be written field by field or packed; readers of protocol
            // buffers have to accept both.
            WireValue::Varint(v) => into.push(v.cast_signed()),
            WireValue::Bytes(mut m) => {
                while m.at < m.end {
                    into.push(m.read_varint(what)?.cast_signed());
                }
            }
            _ => return Err(self.wrong_type(what, "a varint, or many packed")),
        }
        Ok(())
    }

    /// Appends numbers of `N` bytes as bytes, from one value or a packed list.
    pub(crate) fn append_fixed<const N: usize>(
        &self,
        what: &str,
        into: &mut Vec<u8>,
    ) -> Result<()> {
        match self.value {
            WireValue::Fixed32(b) if N == 4 => into.extend_from_slice(&b),
            WireValue::Fixed64(b) if N == 8 => into.extend_from_slice(&b),
            WireValue::Bytes(m) if m.remaining_bytes().len() % N == 0 => {
                into.extend_from_slice(m.remaining_bytes());
            }
            WireValue::Bytes(m) => {
                let message =
                    format!("`{what}`: {} bytes of numbers of {N}", m.remaining_bytes().len());
                return Err(OnnxError::malformed_file(m.at, message));
            }
            _ => return Err(self.wrong_type(what, &format!("numbers of {N} bytes"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<usize> {
        let mut m = WireMessage::whole_file(bytes);
        let mut n = 0;
        while m.next_field()?.is_some() {
            n += 1;
        }
        Ok(n)
    }

    #[test]
    fn numbers_of_64_bits_are_read_and_longer_ones_refused() {
        let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let field = WireMessage::whole_file(&most).next_field().unwrap().unwrap();
        assert_eq!(field.as_int("x").unwrap(), -1);
        let mut over = most;
        over[10] = 0x02;
        assert_eq!(
            fields(&over).unwrap_err().to_string(),
            "byte 1: a number has more than 64 bits"
        );
        let endless = [0x80; 12];
        assert!(fields(&endless).unwrap_err().to_string().contains("more than 64 bits"));
    }

    #[test]
    fn errors_say_the_byte() {
        for (bytes, told) in [
            (&[0x08][..], "byte 1: a number ends in its middle"),
            (&[0x08, 0x80], "byte 1: a number ends in its middle"),
            (
                &[0x08, 0x01, 0x12, 0x05, 0x00],
                "byte 3: field 2 announces that 5 bytes follow, and 1 are left",
            ),
            (&[0x0d, 1, 2, 3], "byte 1: a number of 4 bytes, and 3 are left"),
            (&[0x00, 0x00], "byte 0: field number 0; accepted: 1 to 2^29 - 1"),
            (&[0x0b], "byte 0: field 1 has wire type 3; known: 0, 1, 2 and 5"),
        ] {
            assert_eq!(fields(bytes).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_field_of_another_type_is_refused() {
        let field = WireMessage::whole_file(&[0x08, 0x05]).next_field().unwrap().unwrap();
        let told = field.as_text("name").unwrap_err().to_string();
        assert_eq!(told, "byte 0: `name` is bytes with a length, and the file has a varint");
        let field =
            WireMessage::whole_file(&[0x0a, 0x02, 0xc3, 0x28]).next_field().unwrap().unwrap();
        assert_eq!(field.as_text("name").unwrap_err().to_string(), "byte 2: `name`: no UTF-8");
    }
}
