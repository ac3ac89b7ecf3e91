//! Colours that do not depend on what is in view.

use crate::color::{ColorBy, PageTheme, owner_tone};
use crate::ticks::AxisTicks;
use serde::Serialize;
use zellige_layout::{Layout, Result};

/// Colours before they repeat.
// More hues than this cannot be told apart side by side; repeating them keeps neighbours distinct.
const PERIOD: usize = 32;

/// A colour and what it stands for, on a light and on a dark page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnerTone {
    /// The first owner of this colour, such as `T3` or `line 2`.
    pub label: String,
    /// The fill on a light page, as `#rrggbb`.
    pub fill: String,
    /// The colour of text on it.
    pub ink: String,
    /// The fill on a dark page.
    pub dark_fill: String,
    /// The colour of text on it.
    pub dark_ink: String,
}

/// The colours of all owners of a layout.
pub(super) struct AtlasPalette {
    owners: Option<AxisTicks>,
    tones: Vec<OwnerTone>,
    repeats: bool,
}

impl AtlasPalette {
    pub(super) fn new(color: &ColorBy, layout: &Layout) -> Result<AtlasPalette> {
        if layout.size() == 0 {
            return Ok(AtlasPalette { owners: None, tones: Vec::new(), repeats: false });
        }
        let owners = color.all_owners(layout)?;
        let total = owners.total_count();
        let count = usize::try_from(total).unwrap_or(usize::MAX).clamp(1, PERIOD);
        let tones = owners
            .first_values(count)
            .into_iter()
            .enumerate()
            .map(|(rank, key)| {
                let (fill, ink) = owner_tone(rank, count, PageTheme::Light);
                // Both themes at once, because the page switches without asking again.
                let (dark_fill, dark_ink) = owner_tone(rank, count, PageTheme::Dark);
                OwnerTone { label: color.owner_name(key), fill, ink, dark_fill, dark_ink }
            })
            .collect();
        Ok(AtlasPalette { owners: Some(owners), tones, repeats: total > count as i128 })
    }

    pub(super) fn tones(&self) -> &[OwnerTone] {
        &self.tones
    }

    pub(super) fn has_repeats(&self) -> bool {
        self.repeats
    }

    /// The number of an owner's colour.
    pub(super) fn owner_rank(&self, key: i64) -> usize {
        let rank = self.owners.as_ref().map_or(0, |o| o.rank_of(key));
        usize::try_from(rank.rem_euclid(self.tones.len().max(1) as i128)).unwrap_or(0)
    }
}
