//! Single numbers as people write them.

use crate::error::{OpError, Result};
use zellige_float::Dtype;

/// A number with the dtype that PyTorch gives a Python number of that form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberLiteral {
    dtype: Dtype,
    bytes: [u8; 8],
    width: usize,
}

impl NumberLiteral {
    /// `true` and `false` are bool, whole numbers int64, others (with a point, an exponent, `inf` or
    /// `nan`) float32. `None` for a text that is no number.
    ///
    /// # Errors
    /// Whole numbers past 64 bits, and fractions past float32.
    pub fn parse(text: &str) -> Result<Option<NumberLiteral>> {
        let refused = |reason: &str| {
            let (op, reason) = (format!("the number {text}"), reason.into());
            Err(OpError::BadOperand { op, operand: None, reason })
        };
        let new = |dtype, from: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..from.len()].copy_from_slice(from);
            Ok(Some(NumberLiteral { dtype, bytes, width: from.len() }))
        };
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if text == "true" || text == "false" {
            return new(Dtype::Bool, &[u8::from(text == "true")]);
        }
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse::<i64>() {
                Ok(n) => new(Dtype::Int64, &n.to_le_bytes()),
                Err(_) => refused("int64 has 64 bits; write 1e20 for a float"),
            };
        }
        // The parser of Rust takes more words (`infinity`), which may be names of files here.
        let named = ["inf", "nan"].contains(&digits);
        let number = text.parse::<f32>().ok().filter(|_| {
            named || digits.starts_with(['.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        });
        match number {
            None => Ok(None),
            // A number that became infinite by rounding was hardly meant.
            Some(x) if x.is_infinite() && !named => refused("float32 ends at 3.4e38; write inf"),
            Some(x) => new(Dtype::Float32, &x.to_le_bytes()),
        }
    }

    /// Its dtype.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its bytes in host memory.
    pub fn host_bytes(&self) -> &[u8] {
        &self.bytes[..self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_dtype_of_their_form() {
        let of = |text: &str| {
            NumberLiteral::parse(text).unwrap().map(|l| (l.dtype(), l.host_bytes().to_vec()))
        };
        assert_eq!(of("true"), Some((Dtype::Bool, vec![1])));
        assert_eq!(of("-3"), Some((Dtype::Int64, (-3i64).to_le_bytes().to_vec())));
        for (text, x) in
            [("2.5", 2.5f32), ("-1e-3", -1e-3), (".5", 0.5), ("-inf", f32::NEG_INFINITY)]
        {
            assert_eq!(of(text), Some((Dtype::Float32, x.to_le_bytes().to_vec())), "{text}");
        }
        assert_eq!(of("nan").unwrap().0, Dtype::Float32);
        for file in ["a.npy", "", "-", "infinity.npy", "1.npy", "e5", "0x10", "True"] {
            assert_eq!(of(file), None, "{file}");
        }
        for out in ["9223372036854775808", "-9223372036854775809", "1e39"] {
            assert_eq!(NumberLiteral::parse(out).unwrap_err().kind(), "bad_operand", "{out}");
        }
    }
}
