//! The progress of work that takes longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A line on the terminal that appears after a second and is removed at the end.
pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// A bar of so many bytes.
    pub(crate) fn for_bytes(total: u64) -> ProgressLine {
        ProgressLine::styled_bar(
            ProgressBar::new(total),
            "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        )
    }

    /// A bar of so many steps, each with a name.
    pub(crate) fn for_steps(total: u64) -> ProgressLine {
        ProgressLine::styled_bar(ProgressBar::new(total), "{bar:40} {pos}/{len} {elapsed} {msg}")
    }

    fn styled_bar(bar: ProgressBar, template: &str) -> ProgressLine {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // To standard error, so that redirected output holds results only; four times a second is enough for a
        // person.
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        bar.enable_steady_tick(Duration::from_secs(1));
        ProgressLine(bar)
    }

    pub(crate) fn advance_to(&self, position: u64) {
        self.0.set_position(position);
    }

    /// The next step begins.
    pub(crate) fn begin_step(&self, name: &str) {
        self.0.set_message(zellige_notation::make_visible(name).into_owned());
        self.0.inc(1);
    }

    pub(crate) fn finish_bar(&self) {
        self.0.finish_and_clear();
    }
}
