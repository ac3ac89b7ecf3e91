//! Tensors of a file: their dtypes, their elements and the positions of those.

use crate::carried;
use crate::error::{OnnxError, Result, quote_start};
use crate::literal::{self, TensorLiteral};
use crate::proto::TensorProto;
use std::ops::Range;
use zellige_float::Dtype;

/// The place of the elements of a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WeightData {
    /// In these bytes of the model's file, row-major and little-endian.
    Inside(Range<usize>),
    /// The elements themselves, row-major and little-endian.
    Owned(Vec<u8>),
    /// In another file.
    External {
        /// Its name, relative to the folder of the model.
        location: String,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
}

/// The codes of `TensorProto.DataType` that have a dtype.
const DTYPE_CODES: &[(i64, Dtype)] = &[
    (1, Dtype::Float32),
    (2, Dtype::Uint8),
    (3, Dtype::Int8),
    (4, Dtype::Uint16),
    (5, Dtype::Int16),
    (6, Dtype::Int32),
    (7, Dtype::Int64),
    // The numbers are those of the enumeration `TensorProto.DataType`; 8 (string), 13 (uint64) and
    // the complex types have no dtype here.
    (9, Dtype::Bool),
    (10, Dtype::Float16),
    (11, Dtype::Float64),
    (12, Dtype::Uint32),
    (16, Dtype::Bfloat16),
    (17, Dtype::Float8E4m3fn),
    (19, Dtype::Float8E5m2),
    (20, Dtype::Float8E5m2fnuz),
    (21, Dtype::Uint4),
    (22, Dtype::Int4),
    (25, Dtype::Uint2),
    (26, Dtype::Int2),
];

/// Names of the other codes, for messages.
const OTHER_CODES: &[(i64, &str)] = &[
    (8, "string"),
    (13, "uint64"),
    (14, "complex64"),
    (15, "complex128"),
    (18, "float8e4m3fnuz"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
];

/// The dtype of a code, or what is accepted.
pub(crate) fn dtype_of_code(code: i64) -> Result<Dtype, String> {
    if let Some((_, dtype)) = DTYPE_CODES.iter().find(|(c, _)| *c == code) {
        // The card has no float64, so it is computed as float32 from here on.
        return Ok(if *dtype == Dtype::Float64 { Dtype::Float32 } else { *dtype });
    }
    let accepted = DTYPE_CODES.iter().map(|(_, d)| d.name()).collect::<Vec<_>>().join(", ");
    let name = match OTHER_CODES.iter().find(|(c, _)| *c == code) {
        Some((_, name)) => format!("element type {name}"),
        None if code == 0 => "no element type".into(),
        None => format!("element type {code}"),
    };
    Err(format!("{name}; accepted: {accepted}"))
}

/// The dtype of a code, as files store it, float64 included.
pub(crate) fn stored_dtype_of_code(code: i64) -> Option<Dtype> {
    DTYPE_CODES.iter().find(|(c, _)| *c == code).map(|(_, d)| *d)
}

impl TensorProto<'_> {
    /// Its dtype as the file stores it.
    pub(crate) fn stored_dtype(&self) -> Result<Dtype> {
        let dtype = self.element_dtype()?;
        Ok(stored_dtype_of_code(self.dtype).unwrap_or(dtype))
    }

    fn refuse_tensor(&self, message: &str) -> OnnxError {
        let message = format!("tensor `{}`: {message}", quote_start(self.name));
        OnnxError { at: Some(self.at), ..OnnxError::new("bad_tensor", message) }
    }

    /// Its dtype.
    pub(crate) fn element_dtype(&self) -> Result<Dtype> {
        dtype_of_code(self.dtype).map_err(|e| self.refuse_tensor(&e))
    }

    /// Elements, by its shape.
    pub(crate) fn element_count(&self) -> Result<i64> {
        match literal::element_count(&self.dims) {
            // With 64 bits per element the number of bits still fits in 64 bits, which the next
            // function relies on.
            Some(n) if n < 1 << 56 && self.dims.len() <= 64 => Ok(n),
            _ => Err(self.refuse_tensor(&format!(
                "shape {:?}; accepted: up to 64 extents of 0 or more, below 2^56 elements",
                &self.dims[..self.dims.len().min(8)]
            ))),
        }
    }

    /// Bytes of its elements.
    fn byte_count(&self) -> Result<u64> {
        Ok((self.element_count()?.unsigned_abs() * self.stored_dtype()?.bits().unsigned_abs())
            .div_ceil(8))
    }

    /// Locates its elements; those of typed fields are collected.
    ///
    /// # Errors
    /// A number of elements that differs from the shape, unknown dtypes, external data without a
    /// location.
    pub(crate) fn locate_data(&self) -> Result<WeightData> {
        let need = self.byte_count()?;
        // `data_location` decides even where other fields hold something, as the specification
        // says.
        if self.external {
            return self.external_data(need);
        }
        if let Some(raw) = &self.raw {
            if raw.len() as u64 != need {
                let (dims, have) = (&self.dims, raw.len());
                let dtype = self.stored_dtype()?;
                let told =
                    format!("{dims:?} of {dtype} takes {need} bytes, and raw_data has {have}");
                return Err(self.refuse_tensor(&told));
            }
            return Ok(WeightData::Inside(raw.clone()));
        }
        let bytes = self.typed_bytes()?;
        if bytes.len() as u64 != need {
            let width = (self.stored_dtype()?.bits() / 8).unsigned_abs().max(1);
            let have = bytes.len() as u64 / width;
            let told =
                format!("{:?} has {} elements, and {have} are stored", self.dims, need / width);
            return Err(self.refuse_tensor(&told));
        }
        Ok(WeightData::Owned(bytes))
    }

    /// Collects the elements of typed fields, as they are in memory.
    fn typed_bytes(&self) -> Result<Vec<u8>> {
        let dtype = self.stored_dtype()?;
        // The number of the field that a dtype is stored in. The assignment of dtypes to fields is
        // that of onnx.proto: 4 is `float_data`, 5 `int32_data` (everything of 32 bits and less), 7
        // `int64_data`, 10 `double_data`, 11 `uint64_data` (uint32 and uint64).
        let field = match dtype {
            Dtype::Float32 => 4,
            Dtype::Float64 => 10,
            Dtype::Uint32 => 11,
            Dtype::Int64 => 7,
            _ => 5,
        };
        let (mut out, mut ints) = (Vec::new(), Vec::new());
        for f in &self.typed {
            if f.number != field {
                let told = format!("{dtype} is stored in field {field} and not in {}", f.number);
                return Err(OnnxError { at: Some(f.at), ..self.refuse_tensor(&told) });
            }
            match field {
                4 => f.append_fixed::<4>("TensorProto.float_data", &mut out)?,
                10 => f.append_fixed::<8>("TensorProto.double_data", &mut out)?,
                _ => f.append_ints("TensorProto.int32_data or int64_data", &mut ints)?,
            }
        }
        let width = usize::try_from(dtype.bits() / 8).unwrap_or(1).max(1);
        // Floats of 16 and 8 bits are stored as their bits in an integer, so the low bytes are the
        // element.
        out.extend(ints.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)));
        Ok(out)
    }

    fn external_data(&self, need: u64) -> Result<WeightData> {
        let get = |key: &str| self.entries.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let location = get("location").filter(|l| !l.is_empty());
        let Some(location) = location else {
            return Err(self.refuse_tensor("external data without a location"));
        };
        // A model is a file from elsewhere: a location such as `../../etc/passwd` or an absolute
        // one would let it read any file of the user.
        let inside = std::path::Path::new(location)
            .components()
            .all(|c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if !inside {
            let told = format!(
                "external data in `{}`; accepted: a file below the folder of the model",
                quote_start(location)
            );
            return Err(self.refuse_tensor(&told));
        }
        let number = |key: &str, default: u64| match get(key) {
            None => Ok(default),
            Some(v) => v.trim().parse().map_err(|_| {
                self.refuse_tensor(&format!(
                    "external data with {key} `{}`; a number of bytes",
                    quote_start(v)
                ))
            }),
        };
        // Both entries are optional in the specification: the data then begins at the start of the
        // file and is as long as the shape says.
        let (offset, length) = (number("offset", 0)?, number("length", need)?);
        if length != need {
            let told =
                format!("{:?} takes {need} bytes, and its external data has {length}", self.dims);
            return Err(self.refuse_tensor(&told));
        }
        Ok(WeightData::External { location: location.into(), offset, length })
    }

    /// Reads its elements as a literal, if they are few and in this file.
    pub(crate) fn read_literal(&self, file: &[u8]) -> Result<Option<TensorLiteral>> {
        let dtype = self.element_dtype()?;
        // Floats are mostly weights, and a weight that became a literal would be copied into the
        // graph. Shapes and axes are integers, and those are needed.
        let most = if literal::is_float(dtype) {
            literal::MOST_FLOATS
        } else {
            literal::MAX_LITERAL_ELEMENTS
        };
        if self.external || self.element_count()? > most as i64 {
            return Ok(None);
        }
        let data = self.locate_data()?;
        let bytes = match &data {
            WeightData::Inside(range) => &file[range.clone()],
            WeightData::Owned(bytes) => bytes,
            WeightData::External { .. } => return Ok(None),
        };
        let count = usize::try_from(self.element_count()?).unwrap_or(usize::MAX);
        let wide = carried::unpack_elements(bytes, self.stored_dtype()?, count);
        Ok(wide.and_then(|wide| TensorLiteral::decode_elements(dtype, &self.dims, &wide)))
    }
}
