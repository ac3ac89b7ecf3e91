//! A tensor of PyTorch, as far as kernels look at it.

use super::shim::{Handle, check_code, loaded_shim};
use crate::error::DeviceFault;
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::OnceLock;
use zellige_float::Dtype;

/// A list of extents or strides.
pub(super) type DimList = SmallVec<[i64; 6]>;

/// What a tensor is: read once, then plain data.
#[derive(Debug, Clone)]
pub(super) struct SeenTensor {
    pub(super) size: DimList,
    pub(super) stride: DimList,
    pub(super) offset: i64,
    pub(super) dtype: Dtype,
    /// The number of the card; none for a tensor on another device.
    pub(super) card: Option<usize>,
    /// The address of its first element; 0 where it has none.
    pub(super) address: usize,
}

impl SeenTensor {
    pub(super) fn numel(&self) -> i64 {
        self.size.iter().product()
    }

    /// The address of element 0 of its storage.
    pub(super) fn base_address(&self) -> usize {
        let width = usize::try_from(self.dtype.bits() / 8).unwrap_or(1);
        let offset = usize::try_from(self.offset).unwrap_or(0);
        self.address.wrapping_sub(offset.wrapping_mul(width))
    }
}

/// A handle that is given back.
pub(super) struct OwnedHandle(pub(super) Handle);

impl Drop for OwnedHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and used no more.
        unsafe { (loaded_shim().aoti_torch_delete_tensor_object)(self.0) };
    }
}

impl OwnedHandle {
    /// The handle of a Python tensor.
    pub(super) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<OwnedHandle> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the object is alive; what is no tensor is refused with a code.
        check_code(unsafe {
            (loaded_shim().torch_tensor_from_pyobject)(object.as_ptr().cast(), &raw mut handle)
        })
        .map_err(DeviceFault::new_err)?;
        Ok(OwnedHandle(handle))
    }

    /// As a Python tensor.
    pub(super) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let mut object = std::ptr::null_mut();
        // SAFETY: the handle is a live tensor; without a type PyTorch takes its own.
        check_code(unsafe {
            (loaded_shim().torch_tensor_to_pyobject)(self.0, std::ptr::null_mut(), &raw mut object)
        })
        .map_err(DeviceFault::new_err)?;
        // SAFETY: a new reference.
        Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
    }
}

/// Whether an object is a tensor.
pub(super) fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    let mut answer = false;
    // SAFETY: the object is alive.
    let code = unsafe {
        (loaded_shim().torch_is_tensor_pyobject)(object.as_ptr().cast(), &raw mut answer)
    };
    code == 0 && answer
}

/// Looks at a tensor.
pub(super) fn see_tensor(object: &Bound<'_, PyAny>) -> PyResult<SeenTensor> {
    let handle = OwnedHandle::from_object(object)?;
    read_handle(&handle).map_err(DeviceFault::new_err)
}

fn read_handle(handle: &OwnedHandle) -> Result<SeenTensor, String> {
    let (s, h) = (loaded_shim(), handle.0);
    let (mut rank, mut offset) = (0i64, 0i64);
    let (mut dtype, mut device, mut index) = (0i32, 0i32, 0i32);
    let (mut size, mut stride) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut data = std::ptr::null();
    // SAFETY: the handle is a live tensor; each function writes one value.
    unsafe {
        check_code((s.aoti_torch_get_dim)(h, &raw mut rank))?;
        check_code((s.aoti_torch_get_sizes)(h, &raw mut size))?;
        check_code((s.aoti_torch_get_strides)(h, &raw mut stride))?;
        check_code((s.aoti_torch_get_storage_offset)(h, &raw mut offset))?;
        check_code((s.aoti_torch_get_dtype)(h, &raw mut dtype))?;
        check_code((s.aoti_torch_get_device_type)(h, &raw mut device))?;
        check_code((s.aoti_torch_get_device_index)(h, &raw mut index))?;
        check_code((s.torch_get_const_data_ptr)(h, &raw mut data))?;
    }
    let rank = usize::try_from(rank).unwrap_or(0);
    // SAFETY: PyTorch keeps as many extents and strides as there are dimensions.
    let list = |start: *const i64| (0..rank).map(|d| unsafe { *start.add(d) }).collect::<DimList>();
    // SAFETY: a constant.
    let ours = device == unsafe { (s.aoti_torch_device_type_privateuse1)() };
    Ok(SeenTensor {
        size: list(size),
        stride: list(stride),
        offset,
        dtype: scalar_type(dtype)?,
        card: ours.then(|| usize::try_from(index).unwrap_or(0)),
        address: data as usize,
    })
}

/// PyTorch's numbers of dtypes.
const DTYPE_CODES: &[(i32, Dtype)] = &[
    (0, Dtype::Uint8),
    (1, Dtype::Int8),
    (2, Dtype::Int16),
    (3, Dtype::Int32),
    (4, Dtype::Int64),
    (5, Dtype::Float16),
    (6, Dtype::Float32),
    (7, Dtype::Float64),
    (8, Dtype::Complex32),
    (9, Dtype::Complex64),
    (10, Dtype::Complex128),
    (11, Dtype::Bool),
    (12, Dtype::Qint8),
    (13, Dtype::Quint8),
    (14, Dtype::Qint32),
    (15, Dtype::Bfloat16),
    (23, Dtype::Float8E5m2),
    (24, Dtype::Float8E4m3fn),
    (25, Dtype::Float8E5m2fnuz),
    (26, Dtype::Float8E4m3fnuz),
    (27, Dtype::Uint16),
    (28, Dtype::Uint32),
    (29, Dtype::Uint64),
];

fn scalar_type(code: i32) -> Result<Dtype, String> {
    let row = DTYPE_CODES.iter().find(|(c, _)| *c == code);
    row.map(|(_, d)| *d).ok_or_else(|| format!("PyTorch's dtype number {code} is not known here"))
}

static DTYPES: OnceLock<HashMap<usize, Dtype>> = OnceLock::new();

/// Remembers PyTorch's dtype objects, which live as long as the process.
pub(super) fn load_dtypes(py: Python<'_>) -> PyResult<()> {
    let torch = py.import("torch")?;
    let mut map = HashMap::new();
    for (_, dtype) in DTYPE_CODES {
        if let Ok(object) = torch.getattr(dtype.name()) {
            map.insert(object.as_ptr() as usize, *dtype);
        }
    }
    let _ = DTYPES.set(map);
    Ok(())
}

/// The dtype that a PyTorch object names.
pub(super) fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    match DTYPES.get().and_then(|m| m.get(&(object.as_ptr() as usize))) {
        Some(dtype) => Ok(*dtype),
        None => crate::convert::parse_dtype(object),
    }
}
