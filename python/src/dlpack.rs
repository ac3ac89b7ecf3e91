//! The C structures of DLPack 1, and the function table by which a tensor library shares tensors
//! without going through Python.

use std::ffi::c_void;
use zellige_float::Dtype;

/// Where memory is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DlDevice {
    pub(crate) kind: i32,
    pub(crate) index: i32,
}

impl DlDevice {
    /// Host memory.
    pub(crate) const CPU: i32 = 1;
    /// Memory of a GPU of NVIDIA.
    pub(crate) const CUDA: i32 = 2;
    /// A device that DLPack knows nothing of: ours.
    pub(crate) const EXTENSION: i32 = 12;
}

/// What elements are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DlDtype {
    code: u8,
    bits: u8,
    lanes: u16,
}

const DTYPES: &[(Dtype, u8, u8)] = &[
    (Dtype::Int8, 0, 8),
    (Dtype::Int16, 0, 16),
    (Dtype::Int32, 0, 32),
    (Dtype::Int64, 0, 64),
    (Dtype::Uint8, 1, 8),
    (Dtype::Uint16, 1, 16),
    (Dtype::Uint32, 1, 32),
    (Dtype::Uint64, 1, 64),
    (Dtype::Float16, 2, 16),
    (Dtype::Float32, 2, 32),
    (Dtype::Float64, 2, 64),
    (Dtype::Bfloat16, 4, 16),
    (Dtype::Complex64, 5, 64),
    (Dtype::Complex128, 5, 128),
    (Dtype::Bool, 6, 8),
    (Dtype::Float8E4m3fn, 10, 8),
    (Dtype::Float8E4m3fnuz, 11, 8),
    (Dtype::Float8E5m2, 12, 8),
    (Dtype::Float8E5m2fnuz, 13, 8),
];

impl DlDtype {
    pub(crate) fn for_dtype(dtype: Dtype) -> Option<DlDtype> {
        let row = DTYPES.iter().find(|(d, ..)| *d == dtype);
        row.map(|(_, code, bits)| DlDtype { code: *code, bits: *bits, lanes: 1 })
    }

    pub(crate) fn to_dtype(self) -> Option<Dtype> {
        let same = |row: &&(Dtype, u8, u8)| (row.1, row.2, 1) == (self.code, self.bits, self.lanes);
        DTYPES.iter().find(same).map(|(d, ..)| *d)
    }

    /// As it is written in messages.
    pub(crate) fn describe(self) -> String {
        format!("DLPack type {} of {} bits and {} lanes", self.code, self.bits, self.lanes)
    }
}

/// A tensor.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut c_void,
    pub(crate) device: DlDevice,
    pub(crate) ndim: i32,
    pub(crate) dtype: DlDtype,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

impl DlTensor {
    pub(crate) fn empty() -> DlTensor {
        DlTensor {
            data: std::ptr::null_mut(),
            device: DlDevice { kind: 0, index: 0 },
            ndim: 0,
            dtype: DlDtype { code: 0, bits: 0, lanes: 0 },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        }
    }
}

/// A tensor with its owner, as older libraries share it.
#[repr(C)]
pub(crate) struct DlManaged {
    pub(crate) tensor: DlTensor,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// A tensor with its owner and flags.
#[repr(C)]
pub(crate) struct DlVersioned {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut DlVersioned)>,
    pub(crate) flags: u64,
    pub(crate) tensor: DlTensor,
}

/// The flag of memory that must not be written.
pub(crate) const READ_ONLY: u64 = 1;

/// The functions by which a library shares its tensors; of DLPack 1.2.
#[repr(C)]
pub(crate) struct ExchangeApi {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    from_object: *const c_void,
    pub(crate) to_object: Option<unsafe extern "C" fn(*mut DlVersioned, *mut *mut c_void) -> i32>,
    pub(crate) look: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> i32>,
    /// The stream of the library's next work on a device.
    pub(crate) stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32>,
}
