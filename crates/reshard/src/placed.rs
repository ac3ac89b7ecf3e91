//! Reads the sharding of a tensor from a text: `P('tp', None) at pp={i}/16`.

use crate::mesh::DeviceMesh;
use crate::sharded::{ShardedLayout, parse_padded_spec};
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{
    Axis, AxisKind, AxisTable, Iter, Layout, PaddedExtent, TileLayout, ValidWindow,
};

/// A layout of a tensor over a mesh, as rules write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementText {
    pub(crate) text: String,
    pub(crate) at: Vec<(String, AxisCoordinate)>,
    pub(crate) padded: bool,
}

/// A coordinate on an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AxisCoordinate {
    /// This coordinate.
    Number(i64),
    /// A number captured from the name, divided.
    Captured(String, i64),
}

impl ShardedLayout {
    /// Reads the sharding that a text describes on a mesh, in the notation of rules: `P('tp', None)
    /// at pp=0`, `flat`, `whole`.
    ///
    /// # Errors
    /// An invalid text, with what would be accepted.
    pub fn read_sharding(
        text: &str,
        mesh: &DeviceMesh,
        shape: &[i64],
    ) -> Result<ShardedLayout, String> {
        PlacementText::parse(text)?.shard_over_mesh(mesh, shape, &[])
    }
}

impl PlacementText {
    /// Reads a text: `whole`, `flat`, `flat tp`, a `PartitionSpec`, DTensor placements or another notation; then `at axis=number`, `padded`.
    ///
    /// # Errors
    /// Errors in the part after the layout; the layout itself is read later, for a shape.
    pub fn parse(text: &str) -> Result<PlacementText, String> {
        let mut rest = text.trim();
        let padded = rest.ends_with(" padded");
        if padded {
            rest = rest.trim_end_matches("padded").trim_end();
        }
        let mut at = Vec::new();
        if let Some((layout, places)) = rest.split_once(" at ") {
            for place in places.split(',') {
                let Some((axis, value)) = place.split_once('=') else {
                    return Err(format!("`{place}`: accepted is `at axis=number`"));
                };
                let value = value.trim();
                let coordinate = match value.strip_prefix('{').and_then(|v| v.split_once('}')) {
                    Some((word, divided)) => {
                        let by = match divided.strip_prefix('/') {
                            None if divided.is_empty() => Some(1),
                            None => None,
                            Some(n) => n.trim().parse().ok().filter(|n| *n > 0),
                        };
                        by.map(|by| AxisCoordinate::Captured(word.to_string(), by))
                    }
                    None => value.parse().ok().map(AxisCoordinate::Number),
                };
                let accepted = "accepted are a number, {i} and {i}/8";
                let coordinate = coordinate.ok_or_else(|| format!("`{value}`: {accepted}"))?;
                at.push((axis.trim().to_string(), coordinate));
            }
            rest = layout;
        }
        Ok(PlacementText { text: rest.trim().to_string(), at, padded })
    }

    /// Whether shards are intervals of the elements in row-major order.
    pub(crate) fn is_flat(&self) -> bool {
        self.text.split_whitespace().next() == Some("flat")
    }

    /// The sharding of a shape over a mesh; `numbers` are those captured from the name of the
    /// tensor.
    ///
    /// # Errors
    /// A text that is not a layout of the shape over the axes of the mesh.
    pub fn shard_over_mesh(
        &self,
        mesh: &DeviceMesh,
        shape: &[i64],
        numbers: &[(String, i64)],
    ) -> Result<ShardedLayout, String> {
        let mut fixed: Vec<(Axis, i64)> = Vec::new();
        for (name, coordinate) in &self.at {
            let known = mesh.axes().iter().find(|(a, _)| a.name() == name);
            let (axis, size) = known.ok_or_else(|| format!("no axis `{name}`"))?;
            let at = match coordinate {
                AxisCoordinate::Number(n) => *n,
                AxisCoordinate::Captured(word, by) => {
                    // Layer 37 with `{i}/16` is stage 2: how pipelines assign layers to stages.
                    numbers.iter().find(|(w, _)| w == word).map_or(0, |(_, n)| n / by)
                }
            };
            if !(0..*size).contains(&at) {
                return Err(format!("`{name}` is {at}, and {mesh} has {size} of it"));
            }
            fixed.push((*axis, at));
        }
        let free: Vec<(Axis, i64)> = mesh
            .axes()
            .iter()
            .copied()
            .filter(|(a, _)| fixed.iter().all(|(f, _)| f != a))
            .collect();
        let (layout, even) = self.build_layout(&free, shape)?;
        let tile = layout.tile();
        let offset: Vec<(Axis, i64)> = tile.offset().iter().copied().chain(fixed).collect();
        let placed = TileLayout::new(tile.shard().to_vec(), tile.replica().to_vec(), offset)
            .map_err(|e| e.to_string())?;
        let mut placed = Layout::from(placed);
        if let Some(window) = layout.window() {
            placed = placed.with_window(window.clone()).map_err(|e| e.to_string())?;
        }
        // Shards in files are plain tensors, whose elements other programs find by their index
        // alone.
        if layout.swizzle().is_some() {
            return Err("a shard in a file is not swizzled".into());
        }
        let made = ShardedLayout::new(placed, mesh.clone()).map_err(|e| e.to_string())?;
        Ok(match even {
            Some(even) => made.with_chunks(shape.to_vec(), even),
            None => made,
        })
    }

    /// The layout. For repeated chunks it is that of a longer tensor, whose shape is returned too.
    fn build_layout(
        &self,
        free: &[(Axis, i64)],
        shape: &[i64],
    ) -> Result<(Layout, Option<Vec<i64>>), String> {
        let text = self.text.as_str();
        let copies = |over: &dyn Fn(&Axis) -> bool| -> Vec<Iter> {
            free.iter().filter(|(a, _)| over(a)).map(|(a, n)| Iter::new(*n, 1, *a)).collect()
        };
        let mut words = text.split([' ', ',']).filter(|w| !w.is_empty());
        match words.next() {
            Some("whole") if text == "whole" => {
                let shard = TileLayout::row_major(shape).map_err(|e| e.to_string())?;
                let tile = TileLayout::new(shard.shard().to_vec(), copies(&|_| true), []);
                return tile.map(|tile| (tile.into(), None)).map_err(|e| e.to_string());
            }
            Some("flat") => {
                let named: Vec<&str> = words.collect();
                if let Some(no) = named.iter().find(|n| free.iter().all(|(a, _)| a.name() != **n)) {
                    return Err(format!("`flat {no}`: no such axis"));
                }
                let cuts = |a: &Axis| named.is_empty() || named.contains(&a.name());
                let elements = checked_product(shape.iter().copied(), "elements")
                    .map_err(|e| e.to_string())?;
                let mut shard = copies(&cuts);
                let parts: i64 = shard.iter().map(|it| it.extent).product();
                let local = div_ceil(elements, parts);
                shard.push(Iter::in_memory(local, 1));
                let tile = TileLayout::new(shard, copies(&|a| !cuts(a)), []);
                let window =
                    ValidWindow::new(vec![PaddedExtent::padded_to(elements, parts * local)]);
                let layout = tile.map(Layout::from).and_then(|l| l.with_window(window?));
                return layout.map(|layout| (layout, None)).map_err(|e| e.to_string());
            }
            _ => {}
        }
        let mut table = AxisTable::new();
        for (axis, _) in free {
            table.declare_axis(axis.name(), AxisKind::Device).map_err(|e| e.to_string())?;
        }
        let sizes: Vec<String> = free.iter().map(|(_, n)| n.to_string()).collect();
        let on_mesh = match text {
            t if t.starts_with("P(") || t.starts_with("PartitionSpec(") => {
                let axes: Vec<String> = free.iter().map(|(a, n)| format!("'{a}': {n}")).collect();
                // Checkpoints contain shards of uneven lengths, which JAX itself does not allow.
                let on_mesh = format!("Mesh({}) {text}", axes.join(", "));
                let read = zellige_notation::jax::parse(&on_mesh);
                let layout = read.and_then(|spec| spec.padded_layout(shape));
                return layout.map(|l| (l, None)).map_err(|d| d.render(&on_mesh, false));
            }
            t if t.starts_with('(') && (t.contains("Shard(") || t.contains("Replicate(")) => {
                let names: Vec<String> = free.iter().map(|(a, _)| format!("'{a}',")).collect();
                format!("{text} mesh=[{}] mesh_dim_names=({})", sizes.join(", "), names.join(" "))
            }
            _ => text.to_string(),
        };
        if let Some(evened) = zellige_notation::dtensor::even_out_placements(&on_mesh, Some(shape))
        {
            return Ok((evened.layout, Some(evened.even)));
        }
        if let Some((layout, _)) = parse_padded_spec(&on_mesh, shape) {
            return Ok((layout, None));
        }
        let parsed =
            zellige_notation::parse(&on_mesh, &table).map_err(|d| d.render(&on_mesh, false))?;
        let layout =
            parsed.layout_over_shape(Some(shape)).map_err(|d| d.render(&on_mesh, false))?;
        Ok((layout, None))
    }
}
