//! `zellige.Layout`: a layout of the algebra, read from and printed in any notation.

use crate::error;
use crate::stick::PyStickLayout;
use crate::{convert, draw};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PySlice, PyTuple};
use zellige_layout::{AxisTable, Difference, Layout, Point, Strided};
use zellige_notation::{Notation, Parsed, convert as between, parse, parse_as};
use zellige_stick::StickLayout;

/// Where every element of a tensor lives: a map from coordinates to sets of places on named axes.
///
///     >>> l = Layout("S[(8,64):(64,1)]")
///     >>> l.apply(1, 2)
///     [{'m': 66}]
///
/// The text may be in any notation: TIRx (`S[(8,64):(64,1)]`), PyTorch (`size=[8, 64] stride=[64, 1]`),
/// Spyre (`SpyreTensorLayout(device_size=..)`, with `shape` naming the host tensor). Two layouts are
/// equal when they are the same function.
#[pyclass(name = "Layout", module = "zellige", frozen)]
#[derive(Clone)]
pub(crate) struct PyLayout {
    pub(crate) layout: Layout,
    pub(crate) shape: Vec<i64>,
    pub(crate) parsed: Parsed,
}

impl PyLayout {
    pub(crate) fn of(layout: Layout, shape: Vec<i64>) -> PyLayout {
        PyLayout { parsed: layout.clone().into(), layout, shape }
    }

    pub(crate) fn strided(host: &Strided) -> PyResult<PyLayout> {
        let layout = host.to_layout().map_err(|e| error::layout(&e))?;
        Ok(PyLayout { layout, shape: host.size().to_vec(), parsed: host.clone().into() })
    }

    pub(crate) fn sticks(stick: &StickLayout, shape: Option<&[i64]>) -> PyResult<PyLayout> {
        let bound = match (stick.host(), shape) {
            (None, Some(shape)) => stick.with_host(shape, None).map_err(|e| error::layout(&e))?,
            _ => stick.clone(),
        };
        let parsed = Parsed::from(bound);
        let layout = parsed.layout(None).map_err(|e| error::diagnostic(&e, ""))?;
        let shape = parsed.default_shape().unwrap_or_default();
        Ok(PyLayout { layout, shape, parsed })
    }

    pub(crate) fn read(
        text: &str,
        shape: Option<Vec<i64>>,
        notation: Option<&str>,
    ) -> PyResult<PyLayout> {
        let axes = AxisTable::new();
        let parsed = match notation {
            None => parse(text, &axes),
            Some(name) => match Notation::from_name(name) {
                Some(notation) => parse_as(text, notation, &axes),
                None => {
                    let known = Notation::list(Notation::all());
                    let message = format!("there is no notation `{name}`; notations are {known}");
                    return Err(error::LayoutError::new_err(message));
                }
            },
        };
        let parsed = parsed.map_err(|e| error::diagnostic(&e, text))?;
        let layout = parsed.layout(shape.as_deref()).map_err(|e| error::diagnostic(&e, text))?;
        let shape = match (shape, parsed.default_shape()) {
            (Some(shape), _) | (None, Some(shape)) => shape,
            (None, None) => layout.default_shape(),
        };
        layout.admit(&shape).map_err(|e| error::layout(&e))?;
        Ok(PyLayout { layout, shape, parsed })
    }

    /// A layout, a device layout, or a text.
    pub(crate) fn from_any(
        value: &Bound<'_, PyAny>,
        shape: Option<Vec<i64>>,
    ) -> PyResult<PyLayout> {
        if let Ok(layout) = value.cast::<PyLayout>() {
            let mut layout = layout.get().clone();
            if let Some(shape) = shape {
                layout.layout.admit(&shape).map_err(|e| error::layout(&e))?;
                layout.shape = shape;
            }
            return Ok(layout);
        }
        if let Ok(stick) = value.cast::<PyStickLayout>() {
            return PyLayout::sticks(&stick.get().0, shape.as_deref());
        }
        match value.extract::<String>() {
            Ok(text) => PyLayout::read(&text, shape, None),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a layout is a Layout, a SpyreTensorLayout or a text, not {}",
                value.get_type().name()?
            ))),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.parsed.text()
    }
}

fn place<'py>(py: Python<'py>, point: &Point) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (axis, at) in point.entries() {
        dict.set_item(axis.to_string(), at)?;
    }
    Ok(dict)
}

#[pymethods]
impl PyLayout {
    #[new]
    #[pyo3(signature = (text, shape=None, *, notation=None))]
    fn new(
        text: &Bound<'_, PyAny>,
        shape: Option<Vec<i64>>,
        notation: Option<&str>,
    ) -> PyResult<PyLayout> {
        match (text.extract::<String>(), notation) {
            (Ok(text), _) => PyLayout::read(&text, shape, notation),
            (Err(_), _) => PyLayout::from_any(text, shape),
        }
    }

    /// The layout that a text describes; `notation` says in which one where that is not clear.
    #[staticmethod]
    #[pyo3(signature = (text, shape=None, *, notation=None))]
    fn parse(text: &str, shape: Option<Vec<i64>>, notation: Option<&str>) -> PyResult<PyLayout> {
        PyLayout::read(text, shape, notation)
    }

    /// The layout of a host tensor with one stride per dimension.
    #[staticmethod]
    #[pyo3(name = "strided", signature = (size, stride=None, offset=0))]
    fn from_strides(size: Vec<i64>, stride: Option<Vec<i64>>, offset: i64) -> PyResult<PyLayout> {
        let host = match stride {
            Some(stride) => Strided::new(&size, &stride, offset),
            None => {
                Strided::contiguous(&size).and_then(|h| Strided::new(h.size(), h.stride(), offset))
            }
        };
        PyLayout::strided(&host.map_err(|e| error::layout(&e))?)
    }

    /// The shape of the coordinates that it takes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> i64 {
        self.layout.size()
    }

    /// The axes that elements lie on.
    #[getter]
    fn axes(&self) -> Vec<String> {
        self.layout.tile().axes().iter().map(ToString::to_string).collect()
    }

    /// The notation that it was read in.
    #[getter]
    fn notation(&self) -> &'static str {
        self.parsed.notation().name()
    }

    /// One more than the largest coordinate on an axis.
    #[pyo3(signature = (axis="m"))]
    fn span(&self, axis: &str) -> PyResult<i64> {
        let axis = AxisTable::new().get(axis).map_err(|e| error::layout(&e))?;
        self.layout.span(axis).map_err(|e| error::layout(&e))
    }

    /// The text in another notation: `tirx`, `torch`, `spyre` (which needs a dtype).
    #[pyo3(signature = (notation, dtype=None))]
    fn to(&self, notation: &str, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let to = Notation::from_name(notation).ok_or_else(|| {
            let known = Notation::list(Notation::all());
            error::LayoutError::new_err(format!(
                "there is no notation `{notation}`; notations are {known}"
            ))
        })?;
        if to == self.parsed.notation() {
            return Ok(self.text());
        }
        let format = match dtype {
            Some(d) => Some(
                zellige_stick::DataFormat::on_device(convert::dtype(d)?)
                    .map_err(|e| error::layout(&e))?,
            ),
            None => None,
        };
        between::convert(&self.layout, &self.shape, format, to).map_err(|e| error::refusal(&e))
    }

    /// The places of the element at a coordinate, each a dictionary of axis to number.
    #[pyo3(signature = (*coordinate))]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        coordinate: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let coordinate: Vec<i64> = match coordinate.len() {
            1 => coordinate.get_item(0)?.extract().or_else(|_| coordinate.extract())?,
            _ => coordinate.extract()?,
        };
        let places = self.layout.apply(&self.shape, &coordinate).map_err(|e| error::layout(&e))?;
        places.points().iter().map(|p| place(py, p)).collect()
    }

    #[pyo3(signature = (*coordinate))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        coordinate: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.apply(py, coordinate)
    }

    /// The layout from places back to flat indices; refused where two elements share a place or a
    /// place has none.
    fn inverse(&self) -> PyResult<PyLayout> {
        let inverse = self.layout.inverse().map_err(|e| error::layout(&e))?;
        Ok(PyLayout::of(inverse.layout, inverse.shape))
    }

    /// The layout `R` with `R(i) = self(other(i))`.
    fn compose(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        let other = PyLayout::from_any(other, None)?;
        let layout = self.layout.compose(&other.layout).map_err(|e| error::layout(&e))?;
        Ok(PyLayout::of(layout, other.shape))
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.compose(other)
    }

    /// The layout of a part: `[(begin, end), ..]`, one pair per dimension.
    fn slice(&self, region: Vec<(i64, i64)>) -> PyResult<PyLayout> {
        let layout = self.layout.slice(&self.shape, &region).map_err(|e| error::layout(&e))?;
        Ok(PyLayout::of(layout, region.iter().map(|(a, b)| b - a).collect()))
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        let keys: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        if keys.len() > self.shape.len() {
            return Err(PyIndexError::new_err(format!(
                "{} slices for {} dimensions",
                keys.len(),
                self.shape.len()
            )));
        }
        let mut region: Vec<(i64, i64)> = Vec::with_capacity(self.shape.len());
        for (d, n) in self.shape.iter().enumerate() {
            region.push(match keys.get(d) {
                None => (0, *n),
                Some(key) => {
                    let Ok(slice) = key.cast::<PySlice>() else {
                        return Err(PyTypeError::new_err(
                            "layouts are cut by slices, such as l[0:4, :]",
                        ));
                    };
                    let at = slice.indices(isize::try_from(*n).unwrap_or(isize::MAX))?;
                    if at.step != 1 {
                        return Err(PyIndexError::new_err("slices of layouts have the step 1"));
                    }
                    (at.start as i64, at.stop.max(at.start) as i64)
                }
            });
        }
        self.slice(region)
    }

    /// Where two layouts first differ: `None` where they are the same function.
    fn difference<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let other = PyLayout::from_any(other, None)?;
        let found = self.layout.difference(&other.layout).map_err(|e| error::layout(&e))?;
        let Some(found) = found else { return Ok(None) };
        let dict = PyDict::new(py);
        match found {
            Difference::Size(left, right) => {
                dict.set_item("left_size", left)?;
                dict.set_item("right_size", right)?;
            }
            Difference::At { index, left, right } => {
                dict.set_item("index", index)?;
                let all = |points: &[Point]| {
                    points.iter().map(|p| place(py, p)).collect::<PyResult<Vec<_>>>()
                };
                dict.set_item("left", all(&left)?)?;
                dict.set_item("right", all(&right)?)?;
            }
        }
        Ok(Some(dict))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyLayout>() else { return Ok(py.NotImplemented()) };
        let same = self.layout.difference(&other.get().layout);
        let same = same.map_err(|e| error::layout(&e))?.is_none();
        let answer = match op {
            CompareOp::Eq => same,
            CompareOp::Ne => !same,
            _ => return Ok(py.NotImplemented()),
        };
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __str__(&self) -> String {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("Layout({:?}, shape={:?})", self.text(), self.shape)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (String, Vec<i64>))> {
        let this = slf.get();
        Ok((slf.get_type().into_any(), (this.text(), this.shape.clone())))
    }

    /// The drawing that notebooks show.
    fn _repr_svg_(&self) -> PyResult<String> {
        draw::svg(self, None, "", 4096)
    }

    /// Whether all elements lie in memory, one in each place.
    #[getter]
    fn bijective(&self) -> PyResult<bool> {
        self.layout.image().map(|i| i.bijective()).map_err(|e| error::layout(&e))
    }

    /// Bytes of memory from the first place to the last, for elements of `itemsize` bytes.
    fn nbytes(&self, itemsize: i64) -> PyResult<i64> {
        let span = self.layout.span(self.layout.memory_axis()).map_err(|e| error::layout(&e))?;
        span.checked_mul(itemsize)
            .ok_or_else(|| error::LayoutError::new_err("more bytes than 64 bits count"))
    }
}
