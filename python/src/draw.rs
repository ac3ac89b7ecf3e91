//! Layouts in words and in pictures, and the language-neutral door.

use crate::layout::PyLayout;
use crate::{convert, error};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zellige_ask::answer_line;
use zellige_float::Dtype;
use zellige_view::{DrawOptions, Scene, svg as render, terminal};

fn layout_scene(
    layout: &PyLayout,
    dtype: Option<Dtype>,
    title: &str,
    most: usize,
) -> PyResult<Scene> {
    let sticks = layout.parsed.stick_layout().is_some();
    let element = layout.parsed.element_size(dtype.map(Dtype::bits));
    let options = DrawOptions {
        title: title.into(),
        dtype_bits: element.bits,
        dtype_assumed: element.known_bits().is_none(),
        sticks,
        max_cells: most,
        ..DrawOptions::default()
    };
    Scene::new(&layout.layout, &layout.shape, &options).map_err(|e| error::layout_error(&e))
}

/// A standalone SVG of a layout.
pub(crate) fn layout_svg(
    layout: &PyLayout,
    dtype: Option<Dtype>,
    title: &str,
    most: usize,
) -> PyResult<String> {
    Ok(render::render_scene_svg(&layout_scene(layout, dtype, title, most)?))
}

/// A layout for a notebook: text, words, drawing, and other notations folded away.
pub(crate) fn layout_html(layout: &PyLayout) -> PyResult<String> {
    let parsed = &layout.parsed;
    let drawing = layout_svg(layout, None, "", 4096)?;
    let explained = zellige_ask::explain_layout(parsed, &layout.layout, &layout.shape, None);
    let words = explained.map(|e| e.words.join(" ")).unwrap_or_default();
    let mut rows = String::new();
    for (n, found) in zellige_ask::convert_to_all(parsed, &layout.layout, &layout.shape, None) {
        if let zellige_ask::ConvertedLayout::Equal(text) = found
            && n != parsed.notation()
        {
            let text = escape_html(&text);
            rows += &format!("<tr><td>{}</td><td><code>{text}</code></td></tr>", n.name());
        }
    }
    let others = if rows.is_empty() {
        String::new()
    } else {
        format!("<details><summary>In other notations</summary><table>{rows}</table></details>")
    };
    let (text, words) = (escape_html(&layout.layout_text()), escape_html(&words));
    Ok(format!("<div><p><code>{text}</code></p><p>{words}</p>{drawing}{others}</div>"))
}

/// A text inside HTML.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A layout drawn: as text for a terminal, and as an SVG.
#[pyfunction]
#[pyo3(signature = (layout, shape=None, dtype=None, title="", width=100, color=false, max_cells=4096))]
pub(crate) fn draw(
    layout: &Bound<'_, PyAny>,
    shape: Option<Vec<i64>>,
    dtype: Option<&Bound<'_, PyAny>>,
    title: &str,
    width: usize,
    color: bool,
    max_cells: usize,
) -> PyResult<(String, String)> {
    let layout = PyLayout::from_any(layout, shape)?;
    let dtype = dtype.map(convert::parse_dtype).transpose()?;
    let scene = layout_scene(&layout, dtype, title, max_cells)?;
    Ok((terminal::render_scene_text(&scene, width, color), render::render_scene_svg(&scene)))
}

/// A layout in words: what it is, what it costs, what looks wrong.
#[pyfunction]
#[pyo3(signature = (layout, shape=None, dtype=None))]
pub(crate) fn explain(
    layout: &Bound<'_, PyAny>,
    shape: Option<Vec<i64>>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let layout = PyLayout::from_any(layout, shape)?;
    let dtype = dtype.map(convert::parse_dtype).transpose()?;
    zellige_ask::explain_layout(&layout.parsed, &layout.layout, &layout.shape, dtype)
        .map(|e| e.text)
        .map_err(|fault| error::LayoutError::new_err(fault.message))
}

/// One request of `zellige ask`: a dictionary with `op` and its fields in, the answer out.
#[pyfunction]
pub(crate) fn ask<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = convert::to_json(request.as_any())?;
    let line = answer_line(&request.to_string());
    let reply: serde_json::Value = serde_json::from_str(&line)
        .map_err(|e| error::LayoutError::new_err(format!("the answer is not JSON: {e}")))?;
    match (reply.get("ok"), reply.get("error")) {
        (Some(ok), _) => convert::from_json(py, ok),
        (_, Some(fault)) => {
            let message = fault.get("message").and_then(|m| m.as_str()).unwrap_or("refused");
            Err(error::LayoutError::new_err(message.to_owned()))
        }
        _ => Err(error::LayoutError::new_err("the answer is empty")),
    }
}
