//! `zellige.SpyreTensorLayout`: the layout of a tensor in the sticks of the device.

use crate::convert;
use crate::error;
use crate::layout::PyLayout;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};
use zellige_stick::{DataFormat, LaneArrangement, StickError, StickLayout, ViewLoop};

macro_rules! formats {
    ($($name:ident)*) => {
        /// The number formats of the device.
        #[pyclass(module = "zellige", eq, eq_int, hash, frozen, from_py_object)]
        #[allow(non_camel_case_types, reason = "the names that users compare")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum DataFormats {
            $(#[doc = stringify!($name)] $name,)*
        }

        impl DataFormats {
            pub(crate) fn format(self) -> DataFormat {
                match self { $(DataFormats::$name => DataFormat::$name,)* }
            }

            pub(crate) fn of(format: DataFormat) -> DataFormats {
                match format { $(DataFormat::$name => DataFormats::$name,)* }
            }
        }
    };
}

formats! {
    SEN169_FP16 IEEE_FP32 INVALID SEN143_FP8 SEN152_FP8 SEN153_FP9 SENINT2 SENINT4 SENINT8 SENINT16
    SENINT24 IEEE_INT64 IEEE_INT32 SENUINT32 SENUINT2 IEEE_FP16 BOOL BFLOAT16 SEN18F_FP24
    IEEE_FP64 COMPLEX64 COMPLEX128 UINT16 UINT64
}

#[pymethods]
impl DataFormats {
    /// Elements in a stick of 128 bytes.
    fn elems_per_stick(&self) -> Option<i64> {
        self.format().elems_per_stick()
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.format().name()
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>, String))> {
        let getattr = slf.py().import("builtins")?.getattr("getattr")?;
        Ok((getattr, (slf.as_any().get_type().into_any(), slf.get().format().name().into())))
    }
}

macro_rules! arrangements {
    ($($name:ident $variant:ident)*) => {
        /// The orders of elements inside a stick.
        #[pyclass(module = "zellige", eq, eq_int, hash, frozen, from_py_object)]
        #[allow(non_camel_case_types, reason = "the names that users compare")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum ElementArrangement {
            $(#[doc = stringify!($name)] $name,)*
        }

        impl ElementArrangement {
            fn arrangement(self) -> LaneArrangement {
                match self { $(ElementArrangement::$name => LaneArrangement::$variant,)* }
            }

            fn of(arrangement: LaneArrangement) -> ElementArrangement {
                match arrangement { $(LaneArrangement::$variant => ElementArrangement::$name,)* }
            }
        }
    };
}

arrangements! {
    STANDARD Standard DL16_TO_FP32 Dl16ToFp32 FP32_TO_DL16 Fp32ToDl16 QFP8WT Qfp8Wt QFP8CH Qfp8Ch
}

#[pymethods]
impl ElementArrangement {
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>, String))> {
        let getattr = slf.py().import("builtins")?.getattr("getattr")?;
        Ok((getattr, (slf.as_any().get_type().into_any(), slf.get().arrangement().name().into())))
    }
}

/// The layout of a tensor on the device: its last device dimension is a stick of 128 bytes.
///
///     >>> SpyreTensorLayout([1024, 256], "float16")
///     SpyreTensorLayout(device_size=[4, 1024, 64], stride_map =[64, 256, 1], device_dtype=DataFormats.SEN169_FP16)
///
/// Four forms: `(size, dtype)`, `(size, dtype, dim_order)`, `(size, strides, dtype, dim_order)` and
/// `(device_size, stride_map, device_dtype)`; the last two take an element arrangement at the end, and the
/// last one strides of the device that leave gaps (`device_stride`), how many of its last dimensions are the
/// stick (`stick_dims`), and the `host_size` and `host_stride` of its tensor. Arguments have names, so that
/// the print form can be evaluated.
/// The default form leaves dimensions of size 1 out; a dim_order keeps them, and one that ends in -1
/// asks for one element per stick.
#[pyclass(name = "SpyreTensorLayout", module = "zellige", frozen)]
#[derive(Clone)]
pub(crate) struct PyStickLayout(pub(crate) StickLayout);

const FORMS: &str = "SpyreTensorLayout takes (size, dtype), (size, dtype, dim_order), \
    (size, strides, dtype, dim_order[, element_arrangement]) or \
    (device_size, stride_map, device_dtype[, element_arrangement, device_stride, stick_dims, host_size, \
    host_stride]), in order or by name";

fn wrong_arguments() -> PyErr {
    PyTypeError::new_err(FORMS)
}

fn extract_ints(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    value.extract().map_err(|_| wrong_arguments())
}

/// What a layout is made from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConstructorForm {
    /// The size of a tensor.
    Sized,
    /// The device's side.
    Explicit,
}

/// The arguments of the constructor by their names.
struct ConstructorArguments<'py> {
    form: ConstructorForm,
    values: Vec<(&'static str, Bound<'py, PyAny>)>,
}

impl<'py> ConstructorArguments<'py> {
    fn read_arguments(
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<ConstructorArguments<'py>> {
        const EXPLICIT: [&str; 8] = [
            "device_size",
            "stride_map",
            "device_dtype",
            "element_arrangement",
            "device_stride",
            "stick_dims",
            "host_size",
            "host_stride",
        ];
        let named = |name: &str| kwargs.map_or(Ok(false), |k| k.contains(name));
        let is_list = |i: usize| args.get_item(i).is_ok_and(|v| v.extract::<Vec<i64>>().is_ok());
        let is_format = args.get_item(2).is_ok_and(|v| v.cast::<DataFormats>().is_ok());
        let explicit =
            is_format || named("device_size")? || named("stride_map")? || named("device_dtype")?;
        let order: &[&'static str] = match explicit {
            true => &EXPLICIT,
            false if is_list(1) || named("strides")? || named("host_strides")? => {
                &["size", "strides", "dtype", "dim_order", "element_arrangement"]
            }
            false => &["size", "dtype", "dim_order", "element_arrangement"],
        };
        if args.len() > order.len() {
            return Err(wrong_arguments());
        }
        let mut values: Vec<(&'static str, Bound<'py, PyAny>)> = Vec::new();
        for (name, value) in order.iter().zip(args) {
            values.push((*name, value));
        }
        for (key, value) in kwargs.into_iter().flatten() {
            let key = key.extract::<String>()?;
            // The device's own names of a tensor's size and strides.
            let asked = match &key[..] {
                "host_size" if !explicit => "size",
                "host_strides" if !explicit => "strides",
                other => other,
            };
            let Some(name) = order.iter().find(|n| **n == asked) else {
                let shown: String = key.chars().take(40).collect();
                return Err(PyTypeError::new_err(format!("unknown argument `{shown}`; {FORMS}")));
            };
            if values.iter().any(|(n, _)| n == name) {
                return Err(PyTypeError::new_err(format!("`{name}` is given twice; {FORMS}")));
            }
            values.push((*name, value));
        }
        let form = if explicit { ConstructorForm::Explicit } else { ConstructorForm::Sized };
        Ok(ConstructorArguments { form, values })
    }

    fn get(&self, name: &str) -> Option<&Bound<'py, PyAny>> {
        self.values.iter().find(|(n, v)| *n == name && !v.is_none()).map(|(_, v)| v)
    }

    fn require_argument(&self, name: &str) -> PyResult<&Bound<'py, PyAny>> {
        self.get(name).ok_or_else(|| PyTypeError::new_err(format!("`{name}` is missing; {FORMS}")))
    }

    fn optional_ints(&self, name: &str) -> PyResult<Option<Vec<i64>>> {
        self.get(name).map(extract_ints).transpose()
    }
}

fn arrange_layout(
    layout: StickLayout,
    arrangement: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyStickLayout> {
    let Some(arrangement) = arrangement else { return Ok(PyStickLayout(layout)) };
    let arrangement = arrangement.extract::<ElementArrangement>()?.arrangement();
    let layout = layout.with_arrangement(arrangement).map_err(|e| error::layout_error(&e))?;
    Ok(PyStickLayout(layout))
}

#[pymethods]
impl PyStickLayout {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyStickLayout> {
        let given = ConstructorArguments::read_arguments(args, kwargs)?;
        let list = |name: &str| given.optional_ints(name);
        let refused = |e: StickError| error::layout_error(&e);
        let layout = match given.form {
            ConstructorForm::Explicit => {
                let format = given.require_argument("device_dtype")?;
                let format =
                    format.extract::<DataFormats>().map_err(|_| wrong_arguments())?.format();
                let (size, map) =
                    (given.require_argument("device_size")?, given.require_argument("stride_map")?);
                let together = given.get("stick_dims").map_or(Ok(1), |v| v.extract::<usize>())?;
                let (size, map) = (extract_ints(size)?, extract_ints(map)?);
                let layout = StickLayout::with_stick_dims(&size, &map, format, together);
                let mut layout = layout.map_err(refused)?;
                layout = arrange_layout(layout, given.get("element_arrangement"))?.0;
                if let Some(strides) = list("device_stride")? {
                    layout = layout.with_device_strides(&strides).map_err(refused)?;
                }
                return match (list("host_size")?, list("host_stride")?) {
                    (None, None) => Ok(PyStickLayout(layout)),
                    (None, Some(_)) => {
                        Err(PyTypeError::new_err("host_stride is that of a host_size: give both"))
                    }
                    (Some(size), stride) => PyStickLayout(layout).with_host(size, stride),
                };
            }
            ConstructorForm::Sized => {
                let dtype = convert::parse_dtype(given.require_argument("dtype")?)?;
                let (size, strides) =
                    (extract_ints(given.require_argument("size")?)?, list("strides")?);
                match list("dim_order")? {
                    Some(order) => {
                        StickLayout::with_dim_order(&size, strides.as_deref(), dtype, &order)
                    }
                    None => DataFormat::device_format_of(dtype)
                        .and_then(|f| StickLayout::default_in_format(&size, strides.as_deref(), f)),
                }
            }
        };
        arrange_layout(layout.map_err(refused)?, given.get("element_arrangement"))
    }

    /// The layout of a host tensor of that size. Strides that are given are those in which `stride_map` is
    /// read, also where they leave gaps; without them they are found.
    #[pyo3(signature = (size, stride=None))]
    fn with_host(&self, size: Vec<i64>, stride: Option<Vec<i64>>) -> PyResult<PyStickLayout> {
        let bound = match &stride {
            // A dimension of stride 0 may be a broadcast of the host or replicas of the device.
            Some(own) if !own.contains(&0) => self.0.with_own_strides(&size, own),
            other => self.0.with_host(&size, other.as_deref()),
        };
        let bound = bound.map_err(|e| error::layout_error(&e))?;
        if size.iter().all(|n| *n > 0) {
            bound.lower_to_layout().map_err(|e| error::layout_error(&e))?;
        }
        Ok(PyStickLayout(bound))
    }

    /// The default layout in a device format of its own, such as float32 in 16 bits.
    #[staticmethod]
    #[pyo3(signature = (size, format, strides=None))]
    fn in_format(
        size: Vec<i64>,
        format: DataFormats,
        strides: Option<Vec<i64>>,
    ) -> PyResult<PyStickLayout> {
        let layout = StickLayout::default_in_format(&size, strides.as_deref(), format.format());
        Ok(PyStickLayout(layout.map_err(|e| error::layout_error(&e))?))
    }

    /// The extents of the device dimensions.
    #[getter]
    fn device_size(&self) -> Vec<i64> {
        self.0.device_size().to_vec()
    }

    /// Per device dimension, the host stride of one step; -1 is none, 0 a broadcast.
    #[getter]
    fn stride_map(&self) -> Vec<i64> {
        self.0.stride_map().to_vec()
    }

    /// The strides of the device dimensions, in elements; they may leave gaps.
    #[getter]
    fn device_stride(&self) -> PyResult<Vec<i64>> {
        self.0.device_strides().map_err(|e| error::layout_error(&e))
    }

    /// How many of the last device dimensions together are the stick.
    #[getter]
    fn num_stick_dims(&self) -> usize {
        self.0.stick_dims()
    }

    /// The format of stored elements.
    #[getter]
    fn device_dtype(&self) -> DataFormats {
        DataFormats::of(self.0.device_dtype())
    }

    /// The order of the elements in a stick.
    #[getter]
    fn element_arrangement(&self) -> ElementArrangement {
        ElementArrangement::of(self.0.arrangement())
    }

    /// The size of the host tensor, where it is known.
    #[getter]
    fn host_size(&self) -> Option<Vec<i64>> {
        self.0.host().map(|h| h.size().to_vec())
    }

    /// The strides in which `stride_map` is read, where the host tensor is known.
    #[getter]
    fn host_stride(&self) -> Option<Vec<i64>> {
        self.0.host().map(|h| h.stride().to_vec())
    }

    /// Elements in a stick.
    fn elems_per_stick(&self) -> i64 {
        self.0.elems_per_stick()
    }

    /// Bytes on the device: 128 for every stick.
    #[getter]
    fn nbytes(&self) -> PyResult<i64> {
        self.0.device_bytes().map_err(|e| error::layout_error(&e))
    }

    /// Whether every stick holds one element.
    #[getter]
    fn is_sparse(&self) -> bool {
        self.0.is_sparse()
    }

    /// The layout with its sticks along another dimension of the host tensor.
    fn restickify(&self, dim: i64) -> PyResult<PyStickLayout> {
        self.0.restickify_along(dim).map(PyStickLayout).map_err(|e| error::layout_error(&e))
    }

    /// Per device dimension, the host dimension that it comes from.
    fn dim_map(&self) -> PyResult<Vec<i64>> {
        self.0.recover_dim_map().map_err(|e| error::layout_error(&e))
    }

    /// The dimensions of a host tensor along which elements share a stick.
    fn stick_dims(&self, size: Vec<i64>) -> PyResult<Vec<usize>> {
        let last = self.0.recover_dim_map().ok().and_then(|map| map.last().copied());
        let named = last.and_then(|d| usize::try_from(d).ok());
        let mut found: Vec<usize> = named.into_iter().collect();
        if size.contains(&0) {
            return Ok(found);
        }
        // Without a dim_map, the positions of elements decide: along a dimension of the stick the lane changes.
        // Powers of two are enough: for each digit of weight `w` of a coordinate, one of them is in `w..2w`, where that
        // digit is 1.
        let (map, lanes) = (PyLayout::from_sticks(&self.0, Some(&size))?, self.0.elems_per_stick());
        let lane = |d: usize, i: i64| -> PyResult<i64> {
            let at: Vec<i64> = (0..size.len()).map(|e| if e == d { i } else { 0 }).collect();
            let places = map
                .layout
                .apply_to_coordinate(&map.shape, &at)
                .map_err(|e| error::layout_error(&e))?;
            let points = places.sorted_coordinates();
            let position =
                points.first().and_then(|p| p.axis_entries().first()).map_or(0, |(_, at)| *at);
            Ok(position % lanes)
        };
        for (d, extent) in size.iter().enumerate() {
            let first = lane(d, 0)?;
            let mut i = 1;
            while i < *extent && !found.contains(&d) {
                if lane(d, i)? != first {
                    found.push(d);
                }
                i *= 2;
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The layout in the algebra; `shape` is the host's where it is not known.
    #[pyo3(signature = (shape=None))]
    fn layout(&self, shape: Option<Vec<i64>>) -> PyResult<PyLayout> {
        PyLayout::from_sticks(&self.0, shape.as_deref())
    }

    /// All of it as one text, which `relayout` reads; graphs of PyTorch hold it.
    #[getter]
    fn _whole(&self) -> String {
        zellige_notation::spyre::print_with_bound_host(&self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStickLayout>().is_ok_and(|o| o.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    /// What can be evaluated again, where `DataFormats` and `ElementArrangement` are known.
    fn __repr__(&self) -> String {
        zellige_notation::spyre::print_with_given_host(&self.0)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let read = slf.get_type().getattr("_read")?;
        Ok((read, (zellige_notation::spyre::print_with_bound_host(&slf.get().0),)))
    }

    #[staticmethod]
    fn _read(text: &str) -> PyResult<PyStickLayout> {
        let layout = zellige_notation::spyre::parse(text);
        layout.map(PyStickLayout).map_err(|e| error::diagnostic_error(&e, text))
    }

    /// The drawing that notebooks show.
    fn _repr_svg_(&self) -> PyResult<Option<String>> {
        match self.0.host() {
            Some(_) => crate::draw::layout_svg(&self.layout(None)?, None, "", 4096).map(Some),
            None => Ok(None),
        }
    }
}

/// Terms `(loop, multiplier, divisor, modulus)`, each `multiplier * (p % modulus // divisor)`, and a constant.
type Coordinate = (Vec<(usize, i64, i64, Option<i64>)>, i64);

/// The coordinates of the access `offset + sum(p * step)` in a box, one per dimension; loops are `(range, step)`.
#[pyfunction]
pub(crate) fn box_access(
    size: Vec<i64>,
    stride: Vec<i64>,
    loops: Vec<(i64, i64)>,
    offset: i64,
) -> PyResult<Vec<Coordinate>> {
    let loops: Vec<ViewLoop> =
        loops.into_iter().map(|(range, step)| ViewLoop { range, step }).collect();
    let found = zellige_stick::box_access(&size, &stride, &loops, offset);
    let found = found.map_err(|e| error::layout_error(&e))?;
    let written = found.iter().map(|e| {
        let terms = e.terms.iter().map(|t| (t.var, t.multiplier, t.divisor, t.modulus));
        (terms.collect(), e.constant)
    });
    Ok(written.collect())
}
