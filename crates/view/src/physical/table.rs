//! Tables of places: threads x registers, lanes x columns, one box per device.

use super::roles::AxisRoles;
use super::{PhysicalView, PlaceOccupants, hit_limit};
use crate::cell_label;
use crate::clip;
use crate::elements_at::elements_at;
use crate::scene::ScenePanel;
use crate::scene_builder::SceneContext;
use crate::ticks::AxisTicks;
use zellige_layout::{Axis, Layout, Result, unflatten_index};

/// The table that suits the axes.
pub(crate) fn view_table(context: &SceneContext<'_>) -> Result<PhysicalView> {
    let roles = AxisRoles::choose_roles(context.layout, context.shape);
    let axes = context.axes();
    let ticks: Vec<AxisTicks> =
        axes.iter().map(|a| AxisTicks::for_axis(context.layout, *a)).collect::<Result<_>>()?;
    let name = |slot: usize| axes[slot].name();
    let panels: i128 =
        roles.panels.iter().fold(1, |n: i128, s| n.saturating_mul(ticks[*s].total_count()));
    let cols = ticks[roles.col].total_count();
    let (rows, shown) = match roles.row {
        Some(row) => {
            let rows = ticks[row].total_count();
            (rows, clip::fit_extents(panels, rows, cols, context.options.max_cells))
        }
        None => {
            let fold = (roles.fold as i128).min(cols);
            let rows = cols.div_euclid(fold) + i128::from(cols % fold != 0);
            (rows, clip::fit_extents(panels, rows, fold, context.options.max_cells))
        }
    };

    // The coordinates drawn on each axis; panels take a prefix of the product of theirs.
    let mut wanted: Vec<Vec<i64>> = vec![Vec::new(); axes.len()];
    let mut extents: Vec<i64> = vec![1; roles.panels.len()];
    let mut room = shown.panels;
    // From the fastest axis on, because a prefix of the panels is then contiguous, and its neighbours are worth
    // comparing.
    for (extent, slot) in extents.iter_mut().zip(&roles.panels).rev() {
        wanted[*slot] = ticks[*slot].first_values(room.max(1));
        *extent = i64::try_from(wanted[*slot].len()).unwrap_or(1);
        room /= wanted[*slot].len().max(1);
    }
    let panel_count: usize = roles.panels.iter().map(|s| wanted[*s].len()).product();
    let folded = roles.row.is_none();
    let per_row = if folded { shown.cols } else { 0 };
    let col_count = if folded {
        shown.rows.saturating_mul(shown.cols).min(usize::try_from(cols).unwrap_or(usize::MAX))
    } else {
        shown.cols
    };
    wanted[roles.col] = ticks[roles.col].first_values(col_count);
    if let Some(row) = roles.row {
        wanted[row] = ticks[row].first_values(shown.rows);
    }

    let occupants = PlaceOccupants::new(elements_at(context.layout, &wanted, hit_limit(context)));
    let clip = clip::clip_sentence(
        [roles.row.filter(|_| rows > 0).map(|r| (r, shown.rows)), Some((roles.col, col_count))]
            .into_iter()
            .flatten()
            .map(|(slot, shown)| ticks[slot].clip_note(name(slot), shown)),
    );
    let mesh = mesh_columns(context.layout, &roles, panel_count);
    let mut view = PhysicalView { title: roles.title.clone(), ..PhysicalView::default() };
    for index in 0..panel_count {
        let digits = unflatten_index(&extents, i64::try_from(index).unwrap_or(0));
        let mut at = vec![0; axes.len()];
        for (slot, digit) in roles.panels.iter().zip(&digits) {
            at[*slot] = usize::try_from(*digit).unwrap_or(0);
        }
        let caption: Vec<_> =
            roles.panels.iter().map(|s| format!("{} {}", name(*s), wanted[*s][at[*s]])).collect();
        let mut panel = ScenePanel {
            caption: caption.join(", "),
            at: mesh.as_ref().map(|m| m(wanted[roles.panels[0]][at[roles.panels[0]]])),
            row_title: roles.row.map_or(String::new(), |r| name(r).to_string()),
            col_title: name(roles.col).to_string(),
            col_group: 1,
            clip: clip.clone(),
            ..ScenePanel::default()
        };
        let tick = |slot: usize, i: usize| {
            format!("{}{}", cell_label::axis_code(axes[slot], axes), wanted[slot][i])
        };
        if let Some(row) = roles.row {
            panel.row_labels = (0..wanted[row].len()).map(|i| tick(row, i)).collect();
            panel.col_labels = (0..col_count).map(|i| tick(roles.col, i)).collect();
        } else {
            let range = matches!(ticks[roles.col], AxisTicks::Range { .. });
            panel.row_labels =
                (0..col_count).step_by(per_row.max(1)).map(|i| tick(roles.col, i)).collect();
            panel.col_labels = (0..per_row)
                .map(|i| if range { format!("+{i}") } else { format!("#{i}") })
                .collect();
        }
        let row_count = roles.row.map_or(1, |r| wanted[r].len());
        for r in 0..row_count {
            for c in 0..col_count {
                if let Some(row) = roles.row {
                    at[row] = r;
                }
                at[roles.col] = c;
                let place = at.iter().zip(&wanted).map(|(i, list)| list[*i]).collect();
                let mut cell = occupants.place_cell(context, &at, place);
                (cell.row, cell.col) = if folded { (c / per_row, c % per_row) } else { (r, c) };
                panel.cells.push(cell);
            }
        }
        view.panels.push(panel);
    }
    if panels > panel_count as i128 {
        let names: Vec<_> = roles.panels.iter().map(|s| name(*s)).collect();
        let names = names.join(" x ");
        view.notes.push(format!("Physical view: {panel_count} of {panels} boxes ({names}) shown."));
    }
    for slot in &roles.panels {
        if let clip @ Some(_) = ticks[*slot].clip_note(name(*slot), wanted[*slot].len()) {
            view.notes.extend(clip::clip_sentence([clip]).map(|s| format!("Physical view: {s}.")));
        }
    }
    view.notes.extend(occupants.crowded_note());
    Ok(view)
}

/// The row and column of a device in its mesh, for a single device axis made of exactly two iters: rows
/// follow the first, columns the second, as the dimensions of the tensor do.
pub(crate) fn mesh_columns(
    layout: &Layout,
    roles: &AxisRoles,
    panels: usize,
) -> Option<impl Fn(i64) -> (usize, usize) + use<>> {
    let [slot] = roles.panels[..] else { return None };
    let axis: Axis = layout.tile().axes()[slot];
    if axis.kind().name() != "device" {
        return None;
    }
    let tile = layout.tile();
    let iters: Vec<_> = tile
        .shard()
        .iter()
        .chain(tile.replica())
        .filter(|it| it.axis == axis && it.extent > 1)
        .copied()
        .collect();
    let [a, b] = iters[..] else { return None };
    let offset = tile.axis_bounds(axis).min;
    // A mixed-radix number of two digits, or the digits cannot be told from the sum.
    let (low, high) = if a.stride.abs() < b.stride.abs() { (a, b) } else { (b, a) };
    let exact = low.stride > 0
        && low.stride.checked_mul(low.extent) == Some(high.stride)
        && usize::try_from(a.extent.saturating_mul(b.extent)).is_ok_and(|n| n == panels);
    exact.then_some(move |pid: i64| {
        let digit = |it: zellige_layout::Iter| {
            usize::try_from((pid - offset) / it.stride % it.extent).unwrap_or(0)
        };
        (digit(a), digit(b))
    })
}
