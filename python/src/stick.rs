//! `zellige.SpyreTensorLayout`: how a tensor lies in the sticks of the device.

use crate::convert;
use crate::error;
use crate::layout::PyLayout;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::hash::{DefaultHasher, Hash, Hasher};
use zellige_stick::{Arrangement, DataFormat, StickLayout};

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
            fn arrangement(self) -> Arrangement {
                match self { $(ElementArrangement::$name => Arrangement::$variant,)* }
            }

            fn of(arrangement: Arrangement) -> ElementArrangement {
                match arrangement { $(Arrangement::$variant => ElementArrangement::$name,)* }
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

/// How a tensor lies on the device: its last device dimension is a stick of 128 bytes.
///
///     >>> SpyreTensorLayout([1024, 256], "float16")
///     SpyreTensorLayout(device_size=[4, 1024, 64], stride_map =[64, 256, 1], device_dtype=DataFormats.SEN169_FP16)
///
/// Four forms: `(size, dtype)`, `(size, dtype, dim_order)`, `(size, strides, dtype, dim_order)` and
/// `(device_size, stride_map, DataFormats)`; the last two take an element arrangement at the end.
/// The default form leaves dimensions of size 1 out; a dim_order keeps them, and one that ends in -1
/// asks for one element per stick.
#[pyclass(name = "SpyreTensorLayout", module = "zellige", frozen)]
#[derive(Clone)]
pub(crate) struct PyStickLayout(pub(crate) StickLayout);

fn arranged(
    layout: StickLayout,
    arrangement: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyStickLayout> {
    let Some(arrangement) = arrangement else { return Ok(PyStickLayout(layout)) };
    let arrangement = arrangement.extract::<ElementArrangement>()?.arrangement();
    let layout = layout.with_arrangement(arrangement).map_err(|e| error::layout(&e))?;
    Ok(PyStickLayout(layout))
}

#[pymethods]
impl PyStickLayout {
    #[new]
    #[pyo3(signature = (*args))]
    fn new(args: &Bound<'_, PyTuple>) -> PyResult<PyStickLayout> {
        let forms = "SpyreTensorLayout takes (size, dtype), (size, dtype, dim_order), \
                     (size, strides, dtype, dim_order[, arrangement]) or \
                     (device_size, stride_map, DataFormats[, arrangement])";
        let wrong = || PyTypeError::new_err(forms);
        let list = |i: usize| args.get_item(i)?.extract::<Vec<i64>>().map_err(|_| wrong());
        let n = args.len();
        if n < 2 {
            return Err(wrong());
        }
        let built = if args.get_item(1)?.extract::<Vec<i64>>().is_err() {
            let (size, dtype) = (list(0)?, convert::dtype(&args.get_item(1)?)?);
            match n {
                2 => StickLayout::default(&size, dtype),
                3 => StickLayout::with_dim_order(&size, None, dtype, &list(2)?),
                _ => return Err(wrong()),
            }
        } else if n >= 3 && args.get_item(2)?.cast::<DataFormats>().is_ok() {
            let format = args.get_item(2)?.extract::<DataFormats>()?.format();
            let layout = StickLayout::explicit(&list(0)?, &list(1)?, format);
            let layout = layout.map_err(|e| error::layout(&e))?;
            return match n {
                3 => Ok(PyStickLayout(layout)),
                4 => arranged(layout, Some(&args.get_item(3)?)),
                _ => Err(wrong()),
            };
        } else if n == 4 || n == 5 {
            let dtype = convert::dtype(&args.get_item(2)?)?;
            let (size, stride, order) = (list(0)?, list(1)?, list(3)?);
            let layout = StickLayout::with_dim_order(&size, Some(&stride), dtype, &order);
            let layout = layout.map_err(|e| error::layout(&e))?;
            let last = if n == 5 { Some(args.get_item(4)?) } else { None };
            return arranged(layout, last.as_ref());
        } else {
            return Err(wrong());
        };
        Ok(PyStickLayout(built.map_err(|e| error::layout(&e))?))
    }

    /// The default layout in a device format of its own, such as float32 in 16 bits.
    #[staticmethod]
    #[pyo3(signature = (size, format, strides=None))]
    fn in_format(
        size: Vec<i64>,
        format: DataFormats,
        strides: Option<Vec<i64>>,
    ) -> PyResult<PyStickLayout> {
        let layout = StickLayout::default_in(&size, strides.as_deref(), format.format());
        Ok(PyStickLayout(layout.map_err(|e| error::layout(&e))?))
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

    /// Elements in a stick.
    fn elems_per_stick(&self) -> i64 {
        self.0.elems_per_stick()
    }

    /// Bytes on the device: 128 for every stick.
    #[getter]
    fn nbytes(&self) -> PyResult<i64> {
        self.0.bytes().map_err(|e| error::layout(&e))
    }

    /// Whether every stick holds one element.
    #[getter]
    fn is_sparse(&self) -> bool {
        self.0.is_sparse()
    }

    /// The layout with its sticks along another dimension of the host tensor.
    fn restickify(&self, dim: i64) -> PyResult<PyStickLayout> {
        self.0.restickified(dim).map(PyStickLayout).map_err(|e| error::layout(&e))
    }

    /// Per device dimension, the host dimension that it comes from.
    fn dim_map(&self) -> PyResult<Vec<i64>> {
        self.0.dim_map().map_err(|e| error::layout(&e))
    }

    /// The dimensions of a host tensor along which elements share a stick.
    fn stick_dims(&self, size: Vec<i64>) -> PyResult<Vec<usize>> {
        let last = self.0.dim_map().ok().and_then(|map| map.last().copied());
        let named = last.and_then(|d| usize::try_from(d).ok());
        let mut found: Vec<usize> = named.into_iter().collect();
        if size.contains(&0) {
            return Ok(found);
        }
        // Where there is no dim_map, the positions of elements tell: along a dimension of the stick the lane changes.
        // Powers of two are enough: for each digit of weight `w` of a coordinate, one of them is in `w..2w`, where that
        // digit is 1.
        let (map, lanes) = (PyLayout::sticks(&self.0, Some(&size))?, self.0.elems_per_stick());
        let lane = |d: usize, i: i64| -> PyResult<i64> {
            let at: Vec<i64> = (0..size.len()).map(|e| if e == d { i } else { 0 }).collect();
            let places = map.layout.apply(&map.shape, &at).map_err(|e| error::layout(&e))?;
            let points = places.points();
            let position =
                points.first().and_then(|p| p.entries().first()).map_or(0, |(_, at)| *at);
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
        PyLayout::sticks(&self.0, shape.as_deref())
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

    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let read = slf.get_type().getattr("_read")?;
        Ok((read, (zellige_notation::spyre::print_bound(&slf.get().0),)))
    }

    #[staticmethod]
    fn _read(text: &str) -> PyResult<PyStickLayout> {
        let layout = zellige_notation::spyre::parse(text);
        layout.map(PyStickLayout).map_err(|e| error::diagnostic(&e, text))
    }

    /// The drawing that notebooks show.
    fn _repr_svg_(&self) -> PyResult<Option<String>> {
        match self.0.host() {
            Some(_) => crate::draw::svg(&self.layout(None)?, None, "", 4096).map(Some),
            None => Ok(None),
        }
    }
}
