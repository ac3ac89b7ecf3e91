//! `zellige.Layout`: a layout of the algebra, read from and printed in any notation.

use crate::error;
use crate::stick::PyStickLayout;
use crate::{convert, draw};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PySlice, PyTuple};
use serde_json::{Value, json};
use zellige_layout::{AxisTable, Layout, LayoutDifference, PhysicalCoordinate, StridedLayout};
use zellige_notation::preset::{ScaleFactors, build_scale_factor_layout};
use zellige_notation::triton::ttgir;
use zellige_notation::{Notation, ParsedText, convert as between, parse, parse_as, sharding};
use zellige_stick::StickLayout;

/// Where every element of a tensor lives: a map from coordinates to sets of places on named axes.
///
///     >>> l = Layout("S[(8,64):(64,1)]")
///     >>> l.apply(1, 2)
///     [{'m': 66}]
///
/// The text may be in any notation: TIRx (`S[(8,64):(64,1)]`), CuTe (`(8,64):(64,1)`), PyTorch
/// (`size=[8, 64] stride=[64, 1]`), Triton attributes and linear layouts, XLA (`{1,0:T(8,128)}`), oneDNN tags, `linalg.pack`,
/// memrefs, shardings of JAX, HLO, Shardy and DTensor, NumPy, Spyre (`SpyreTensorLayout(device_size=..)`). `shape` is
/// needed where the text does not say it; `notation` where several read the text differently. Two layouts are equal when
/// they are the same function.
#[pyclass(name = "Layout", module = "zellige", frozen)]
#[derive(Clone)]
pub(crate) struct PyLayout {
    pub(crate) layout: Layout,
    pub(crate) shape: Vec<i64>,
    pub(crate) parsed: ParsedText,
}

/// The beginning of a text that describes a layout completely.
const WHOLE_PREFIX: &str = "zellige layout ";

impl PyLayout {
    /// The layout of a text that begins as [`WHOLE_PREFIX`] does; none of any other.
    pub(crate) fn from_whole(text: &str) -> Option<PyResult<PyLayout>> {
        let said = text.strip_prefix(WHOLE_PREFIX)?;
        let read = || {
            let value: Value = serde_json::from_str(said).ok()?;
            let shape = value.get("shape")?.as_array()?.iter().map(Value::as_i64).collect();
            let shape: Option<Vec<i64>> = shape;
            let (text, notation) = (value.get("text")?.as_str()?, value.get("notation")?.as_str()?);
            Some(PyLayout::read_text(text, Some(shape?), Some(notation)))
        };
        let lost =
            || Err(error::LayoutError::new_err(format!("{WHOLE_PREFIX}is followed by JSON")));
        Some(read().unwrap_or_else(lost))
    }

    pub(crate) fn from_layout(layout: Layout, shape: Vec<i64>) -> PyLayout {
        PyLayout { parsed: layout.clone().into(), layout, shape }
    }

    pub(crate) fn from_strided(host: &StridedLayout) -> PyResult<PyLayout> {
        let layout = host.to_layout().map_err(|e| error::layout_error(&e))?;
        Ok(PyLayout { layout, shape: host.size().to_vec(), parsed: host.clone().into() })
    }

    pub(crate) fn from_sticks(stick: &StickLayout, shape: Option<&[i64]>) -> PyResult<PyLayout> {
        let bound = match (stick.host(), shape) {
            (None, Some(shape)) => {
                stick.with_host(shape, None).map_err(|e| error::layout_error(&e))?
            }
            _ => stick.clone(),
        };
        let parsed = ParsedText::from(bound);
        let layout = parsed.layout_over_shape(None).map_err(|e| error::diagnostic_error(&e, ""))?;
        let shape = parsed.default_shape().unwrap_or_default();
        Ok(PyLayout { layout, shape, parsed })
    }

    pub(crate) fn read_text(
        text: &str,
        shape: Option<Vec<i64>>,
        notation: Option<&str>,
    ) -> PyResult<PyLayout> {
        let axes = AxisTable::new();
        let parsed = match notation {
            None => parse(text, &axes),
            Some(name) => match Notation::from_name(name) {
                Some(notation) => parse_as(text, notation, &axes),
                None => return Err(unknown_notation(name)),
            },
        };
        let parsed = parsed.map_err(|e| error::diagnostic_error(&e, text))?;
        let layout = parsed
            .layout_over_shape(shape.as_deref())
            .map_err(|e| error::diagnostic_error(&e, text))?;
        let shape = match (shape, parsed.default_shape()) {
            (Some(shape), _) | (None, Some(shape)) => shape,
            (None, None) => layout.default_shape(),
        };
        layout.check_shape_size(&shape).map_err(|e| error::layout_error(&e))?;
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
                layout.layout.check_shape_size(&shape).map_err(|e| error::layout_error(&e))?;
                layout.shape = shape;
            }
            return Ok(layout);
        }
        if let Ok(stick) = value.cast::<PyStickLayout>() {
            return PyLayout::from_sticks(&stick.get().0, shape.as_deref());
        }
        match value.extract::<String>() {
            Ok(text) => PyLayout::read_text(&text, shape, None),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a layout is a Layout, a SpyreTensorLayout or a text, not {}",
                value.get_type().name()?
            ))),
        }
    }

    pub(crate) fn layout_text(&self) -> String {
        self.parsed.notation_text()
    }

    /// Where two layouts first differ. Shardings are compared over numbered devices.
    fn first_difference(&self, other: &PyLayout) -> PyResult<Option<LayoutDifference>> {
        let numbered = if self.shape == other.shape {
            sharding::on_numbered_devices(&self.parsed, &other.parsed, &self.shape)
        } else {
            None
        };
        let found = match &numbered {
            Some((a, b)) => a.find_difference(b),
            None => self.layout.find_difference(&other.layout),
        };
        found.map_err(|e| error::layout_error(&e))
    }
}

fn unknown_notation(name: &str) -> PyErr {
    let known = Notation::list_names(Notation::all_notations());
    error::LayoutError::new_err(format!("there is no notation `{name}`; notations are {known}"))
}

fn place_dict<'py>(py: Python<'py>, point: &PhysicalCoordinate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (axis, at) in point.axis_entries() {
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
            (Ok(text), _) => PyLayout::read_text(&text, shape, notation),
            (Err(_), _) => PyLayout::from_any(text, shape),
        }
    }

    /// The layout that a text describes; `notation` names the notation of a text with several readings.
    #[staticmethod]
    #[pyo3(signature = (text, shape=None, *, notation=None))]
    fn parse(text: &str, shape: Option<Vec<i64>>, notation: Option<&str>) -> PyResult<PyLayout> {
        PyLayout::read_text(text, shape, notation)
    }

    /// The layout of a host tensor with one stride per dimension.
    #[staticmethod]
    #[pyo3(name = "strided", signature = (size, stride=None, offset=0))]
    fn from_strides(size: Vec<i64>, stride: Option<Vec<i64>>, offset: i64) -> PyResult<PyLayout> {
        let host = match stride {
            Some(stride) => StridedLayout::new(&size, &stride, offset),
            None => StridedLayout::new_contiguous(&size)
                .and_then(|h| StridedLayout::new(h.size(), h.stride(), offset)),
        };
        PyLayout::from_strided(&host.map_err(|e| error::layout_error(&e))?)
    }

    /// The layout of the scale factors of a block-scaled matrix instruction in tensor memory.
    ///
    ///     >>> Layout.scale_factors(128, 16, sf_per_mma=4).shape
    ///     (128, 16)
    ///
    /// `rows` is a multiple of 32, `groups` counts the distinct factors of a row. `32 // bits` factors fit in a cell
    /// of `TCol`, which counts factors; every factor is in four lanes, 32 apart. `sf_per_mma` neighbours are read by
    /// one instruction, and `reuse` instructions in a row read the same ones, so that a row has `groups * reuse`
    /// elements. `pipe_depth` stages, one after the other, are the first dimension of the shape.
    #[staticmethod]
    #[pyo3(signature = (rows, groups, *, bits=8, sf_per_mma=1, reuse=1, pipe_depth=None))]
    fn scale_factors(
        rows: i64,
        groups: i64,
        bits: i64,
        sf_per_mma: i64,
        reuse: i64,
        pipe_depth: Option<i64>,
    ) -> PyResult<PyLayout> {
        let given = ScaleFactors { rows, groups, bits, sf_per_mma, reuse, pipe_depth };
        let found = build_scale_factor_layout(&given).map_err(|e| error::layout_error(&e))?;
        Ok(PyLayout::from_layout(found.layout, found.shape))
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

    /// The axes of the places of elements.
    #[getter]
    fn axes(&self) -> Vec<String> {
        self.layout.tile().axes().iter().map(ToString::to_string).collect()
    }

    /// The notation that it was read in.
    #[getter]
    fn notation(&self) -> &'static str {
        self.parsed.notation().name()
    }

    /// All of it as one text, which `relayout` reads; graphs of PyTorch hold it.
    #[getter]
    fn _whole(&self) -> String {
        let (text, notation) = (self.layout_text(), self.notation());
        format!(
            "{WHOLE_PREFIX}{}",
            json!({"text": text, "shape": self.shape, "notation": notation})
        )
    }

    /// One more than the largest coordinate on an axis.
    #[pyo3(signature = (axis="m"))]
    fn span(&self, axis: &str) -> PyResult<i64> {
        let axis = AxisTable::new().get(axis).map_err(|e| error::layout_error(&e))?;
        self.layout.axis_span(axis).map_err(|e| error::layout_error(&e))
    }

    /// The text in another notation: `tirx`, `torch`, `cute`, `linear`, `xla`, `onednn` and the others, and `spyre`,
    /// which needs a dtype; `numpy` writes items of it. Refused with the reason where the notation has no text for it.
    #[pyo3(signature = (notation, dtype=None))]
    fn to(&self, notation: &str, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let to = Notation::from_name(notation).ok_or_else(|| unknown_notation(notation))?;
        if to == self.parsed.notation() {
            return Ok(self.layout_text());
        }
        if to.needs_dtype() && dtype.is_none() {
            let name = to.name();
            return Err(error::LayoutError::new_err(format!(
                "`{name}` says how elements are stored: give a dtype, such as to(\"{name}\", \"float16\")"
            )));
        }
        let dtype = dtype.map(convert::parse_dtype).transpose()?;
        between::translate_notation(&self.parsed, &self.shape, dtype, to)
            .map_err(|e| error::refusal_error(&e))
    }

    /// The text in every notation that has one; `dtype` is needed for `spyre`.
    #[pyo3(signature = (dtype=None))]
    fn notations<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dtype = dtype.map(convert::parse_dtype).transpose()?;
        let dict = PyDict::new(py);
        for (n, found) in
            zellige_ask::convert_to_all(&self.parsed, &self.layout, &self.shape, dtype)
        {
            if let zellige_ask::ConvertedLayout::Equal(text) = found {
                dict.set_item(n.name(), text)?;
            }
        }
        Ok(dict)
    }

    /// What the layout does in words, what it costs, and what looks wrong.
    #[pyo3(signature = (dtype=None))]
    fn explain(&self, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let dtype = dtype.map(convert::parse_dtype).transpose()?;
        let found = zellige_ask::explain_layout(&self.parsed, &self.layout, &self.shape, dtype);
        found.map(|e| e.text).map_err(|fault| error::LayoutError::new_err(fault.message))
    }

    /// The layouts of a Triton module, or of some lines of one: each type as it is written, with its layout. An alias
    /// that no type uses has no shape and is left out.
    #[staticmethod]
    fn from_ttgir<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for choice in
            ttgir::list_layout_choices(text).map_err(|e| error::diagnostic_error(&e, text))?
        {
            if choice.shape.is_some() {
                let layout = PyLayout::read_text(&choice.text, None, Some("triton"))?;
                dict.set_item(choice.written, layout)?;
            }
        }
        Ok(dict)
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
        let places = self
            .layout
            .apply_to_coordinate(&self.shape, &coordinate)
            .map_err(|e| error::layout_error(&e))?;
        places.sorted_coordinates().iter().map(|p| place_dict(py, p)).collect()
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
        let inverse = self.layout.exact_inverse().map_err(|e| error::layout_error(&e))?;
        Ok(PyLayout::from_layout(inverse.layout, inverse.shape))
    }

    /// The layout `R` with `R(i) = self(other(i))`.
    fn compose(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        let other = PyLayout::from_any(other, None)?;
        let layout = self.layout.compose(&other.layout).map_err(|e| error::layout_error(&e))?;
        Ok(PyLayout::from_layout(layout, other.shape))
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.compose(other)
    }

    /// `R(i) == self(other(i))`, in the modes of `other`; a list is applied mode by mode.
    fn composition(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("composition", other)
    }

    /// Tiles and what is between them: each mode becomes (tile, rest).
    fn logical_divide(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("logical_divide", other)
    }

    /// As `logical_divide`, all tiles together and all rests together.
    fn zipped_divide(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("zipped_divide", other)
    }

    /// As `zipped_divide`, the rests as modes of their own.
    fn tiled_divide(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("tiled_divide", other)
    }

    /// As `tiled_divide`, the tiles as modes of their own too.
    fn flat_divide(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("flat_divide", other)
    }

    /// This layout repeated once for every element of `other`.
    fn logical_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("logical_product", other)
    }

    /// As `logical_product`, with tiles and repetitions each together.
    fn zipped_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("zipped_product", other)
    }

    /// As `zipped_product`, the repetitions as modes of their own.
    fn tiled_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("tiled_product", other)
    }

    /// As `tiled_product`, the modes of the tile apart too.
    fn flat_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("flat_product", other)
    }

    /// Repeated block after block in every mode.
    fn blocked_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("blocked_product", other)
    }

    /// Repeated element by element in every mode.
    fn raked_product(&self, other: &Bound<'_, PyAny>) -> PyResult<PyLayout> {
        self.apply_operator_with("raked_product", other)
    }

    /// The same function with as few modes as there can be, first mode fastest.
    fn coalesce(&self) -> PyResult<PyLayout> {
        self.apply_operator("coalesce", &[])
    }

    /// What the layout leaves out of the first `cosize` places, ordered and disjoint from it.
    fn complement(&self, cosize: i64) -> PyResult<PyLayout> {
        self.apply_operator("complement", &[("cosize", cosize.into())])
    }

    /// `R` with `self(R(i)) == i`.
    fn right_inverse(&self) -> PyResult<PyLayout> {
        self.apply_operator("right_inverse", &[])
    }

    /// `L` with `L(self(i)) == i`.
    fn left_inverse(&self) -> PyResult<PyLayout> {
        self.apply_operator("left_inverse", &[])
    }

    /// The layout of a part: `[(begin, end), ..]`, one pair per dimension.
    fn slice(&self, region: Vec<(i64, i64)>) -> PyResult<PyLayout> {
        let layout =
            self.layout.slice_region(&self.shape, &region).map_err(|e| error::layout_error(&e))?;
        Ok(PyLayout::from_layout(layout, region.iter().map(|(a, b)| b - a).collect()))
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
        let found = self.first_difference(&other)?;
        let Some(found) = found else { return Ok(None) };
        let dict = PyDict::new(py);
        match found {
            LayoutDifference::Size(left, right) => {
                dict.set_item("left_size", left)?;
                dict.set_item("right_size", right)?;
            }
            LayoutDifference::At { index, left, right } => {
                dict.set_item("index", index)?;
                let all = |points: &[PhysicalCoordinate]| {
                    points.iter().map(|p| place_dict(py, p)).collect::<PyResult<Vec<_>>>()
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
        let same = self.first_difference(other.get())?.is_none();
        let answer = match op {
            CompareOp::Eq => same,
            CompareOp::Ne => !same,
            _ => return Ok(py.NotImplemented()),
        };
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __str__(&self) -> String {
        self.layout_text()
    }

    fn __repr__(&self) -> String {
        let text = self.layout_text();
        // The notation is named where the text alone would be read otherwise, or asked about.
        let clear = parse(&text, &AxisTable::new()).is_ok_and(|p| p == self.parsed);
        let notation =
            if clear { String::new() } else { format!(", notation={:?}", self.notation()) };
        format!("Layout({text:?}, shape={:?}{notation})", self.shape)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (String, Vec<i64>, &'static str))> {
        let this = slf.get();
        let restore = slf.get_type().getattr("_restore")?;
        Ok((restore, (this.layout_text(), this.shape.clone(), this.notation())))
    }

    /// What pickles call.
    #[staticmethod]
    fn _restore(text: &str, shape: Vec<i64>, notation: &str) -> PyResult<PyLayout> {
        PyLayout::read_text(text, Some(shape), Some(notation))
    }

    /// The drawing alone.
    fn _repr_svg_(&self) -> PyResult<String> {
        draw::layout_svg(self, None, "", 4096)
    }

    /// What notebooks show: the text, what it does in words, the drawing, and the layout in other notations.
    fn _repr_html_(&self) -> PyResult<String> {
        draw::layout_html(self)
    }

    /// Whether all elements are in memory, one in each place.
    #[getter]
    fn bijective(&self) -> PyResult<bool> {
        self.layout.analyze_image().map(|i| i.is_bijective()).map_err(|e| error::layout_error(&e))
    }

    /// Bytes of memory from the first place to the last, for elements of `itemsize` bytes.
    fn nbytes(&self, itemsize: i64) -> PyResult<i64> {
        let span = self
            .layout
            .axis_span(self.layout.memory_axis())
            .map_err(|e| error::layout_error(&e))?;
        span.checked_mul(itemsize)
            .ok_or_else(|| error::LayoutError::new_err("more bytes than 64 bits count"))
    }
}
